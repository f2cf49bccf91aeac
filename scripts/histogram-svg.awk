# Draws what `h5spec info --histogram` prints as an SVG picture. Takes -v windows= mean= std= (dB),
# outside= (values below and above the bins), and in the environment NAME, the slide's name in UTF-8.
# Wants LC_ALL=C: characters are bytes here.

function xml(s) {
    gsub(/[\001-\037\177]/, "?", s)
    gsub(/&/, "\\&amp;", s); gsub(/</, "\\&lt;", s); gsub(/>/, "\\&gt;", s)
    return s
}
# At most n bytes, cut between characters.
function shorten(s, n,    c) {
    if (length(s) <= n) return s
    while ((c = substr(s, n + 1, 1)) >= "\200" && c < "\300") n--
    return substr(s, 1, n) "..."
}
function commas(n,    s, out) {
    for (s = sprintf("%.0f", n); length(s) > 3; s = substr(s, 1, length(s) - 3))
        out = "," substr(s, length(s) - 2) out
    return s out
}
function x(db) { return left + (db - low) / (high - low) * (right - left) }
function y(share) { return bottom - share / highest * (bottom - top) }
function clamp(v, a, b) { return v < a ? a : v > b ? b : v }
function text(class, px, py, s) {
    printf "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", class, px, py, s
}
function line(class, x1, y1, x2, y2) {
    printf "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", class, x1, y1, x2, y2
}

BEGIN { step = 0.5 }  # dB a bar
NR > 1 {
    i = int($1 / step + 1e-6)
    n[i] += $3; all += $3
    if ($3 > 0) { if (!seen++) first = i; last = i }
}
END {
    if (!seen) { print "histogram-svg.awk: the histogram is empty" > "/dev/stderr"; exit 1 }
    all += outside
    left = 70; right = 870; top = 94; bottom = 362
    low = 10 * int(first * step / 10)
    high = 10 * int((last + 1) * step / 10 + 0.999)

    for (i = first; i <= last; i++) {
        share[i] = 100 * n[i] / all / step
        if (share[i] > most) most = share[i]
    }
    # 3 to 6 ticks, 1, 2 or 5 times a power of ten apart
    tick = 0.01
    for (k = 0; most / tick > 5; k++) tick *= k % 3 == 1 ? 2.5 : 2
    highest = tick * int(most / tick + 1)
    digits = tick < 0.1 ? 2 : tick < 1 ? 1 : 0
    from = clamp(mean - std, low, high); to = clamp(mean + std, low, high)

    print "<?xml version=\"1.0\" encoding=\"UTF-8\"?>"
    print "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"900\" height=\"420\" viewBox=\"0 0 900 420\" role=\"img\">"
    printf "<title>Spectral histogram of %s</title>\n", xml(ENVIRON["NAME"])
    print "<style>"
    print "text { font: 13px 'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif; fill: #52606d }"
    print ".name { font-size: 18px; font-weight: bold; fill: #1f2933 }"
    print ".middle, .mean-label, .axis-title { text-anchor: middle } .end { text-anchor: end }"
    print ".axis-title { fill: #323f4b } .mean-label { fill: #b83280; font-weight: bold }"
    print ".grid { stroke: #e4e7eb } .axis { stroke: #7b8794 } .mean { stroke: #b83280; stroke-width: 2 }"
    print ".std { stroke: #b83280; stroke-dasharray: 4 4; opacity: 0.7 } .band { fill: #b83280; opacity: 0.06 }"
    print ".curve { fill: #2b6cb0; fill-opacity: 0.75; stroke: #1a4e8a; stroke-width: 1; stroke-linejoin: round }"
    print "</style>"
    print "<rect width=\"900\" height=\"420\" fill=\"#ffffff\"/>"
    text("name", left, 32, xml(shorten(ENVIRON["NAME"], 76)))
    text("sub", left, 54, sprintf("%s window%s, mean %.2f dB, standard deviation %.2f dB",
                                  commas(windows), windows == 1 ? "" : "s", mean, std))

    for (s = 0; s <= highest + tick / 2; s += tick) {
        if (s > 0) line("grid", left, y(s), right, y(s))
        text("end", left - 10, y(s) + 4.5, sprintf("%." digits "f", s))
    }
    for (db = low; db <= high; db += 10) {
        if (db > low) line("grid", x(db), top, x(db), bottom)
        line("axis", x(db), bottom, x(db), bottom + 5)
        text("middle", x(db), bottom + 21, db)
    }
    printf "<rect class=\"band\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>\n",
        x(from), top, x(to) - x(from), bottom - top

    printf "<path class=\"curve\" d=\"M%.1f %.1f", x(first * step), bottom
    for (i = first; i <= last; i++) printf "V%.2fH%.2f", y(share[i]), x((i + 1) * step)
    printf "V%.1fZ\"/>\n", bottom

    line("axis", left, bottom, right, bottom)
    # a label goes where it does not touch the mean's
    at = clamp(x(mean), left + 45, right - 45)
    near = x(to) - at < 72 || at - x(from) < 72
    if (mean - std > low) {
        line("std", x(from), top, x(from), bottom)
        if (!near) text("middle", x(from), top - 8, "\342\210\222 std")
    }
    if (mean + std < high) {
        line("std", x(to), top, x(to), bottom)
        if (!near) text("middle", x(to), top - 8, "+ std")
    }
    line("mean", x(mean), top, x(mean), bottom)
    text("mean-label", at, top - 8, sprintf("mean %.1f dB", mean))

    text("axis-title", (left + right) / 2, 406, "log magnitude (dB)")
    printf "<text class=\"axis-title\" transform=\"translate(24 %d) rotate(-90)\">share of values per dB (%%)</text>\n", (top + bottom) / 2
    print "</svg>"
}
