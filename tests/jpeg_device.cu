/*
 * jpeg_device.cu - the kernels that decode JPEG, on streams of jpeg_streams.c.
 *
 *   jpeg_device check FILE...   decodes every stream; compares the pixels with libjpeg-turbo's
 *   jpeg_device host FILE...    the same for the entropy decoder alone, run on the host
 *   jpeg_device bench FILE [TILES]
 *                               times the kernels on so many tiles (48,780) of the file's largest
 *                               group of streams with one header
 *
 * Every stream is decoded in four ways: with look-up tables of its header or of its own, by rows or
 * by runs.
 *
 * check: a stream that the kernels decode must be clean and give the same pixels; all others must
 * be left to the host. The exit status is 1 if one stream breaks this.
 */
#include "cuda/jpeg/jpeg.h"
#include "cuda/jpeg/jpeg_bits.cuh"
#include "tests/gpu_call.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

struct stream {
    std::vector<uint8_t> bytes;
    uint32_t width, height, ycc, clean;
    uint64_t hash;
    size_t scan;
    uint32_t dht[JPEG_PAIRS][2];
};

enum { OWN_TABLES = 1, BY_RUNS = 2, WAYS = 4 };

/* Streams that share geometry and tables. */
struct group {
    jpeg_geometry geometry;
    std::vector<jpeg_set> set; /* one */
    std::vector<const stream *> streams;
};

static uint32_t get32(FILE *f)
{
    uint8_t b[4];
    if (fread(b, 1, 4, f) != 4)
        exit(2);
    return b[0] | b[1] << 8 | b[2] << 16 | (uint32_t)b[3] << 24;
}

static std::vector<stream> load(const char *path)
{
    char magic[8];
    FILE *f = fopen(path, "rb");
    if (!f || fread(magic, 1, 8, f) != 8 || memcmp(magic, "JPEGTEST", 8))
        exit(2);
    std::vector<stream> all(get32(f));
    for (stream &s : all) {
        s.bytes.resize(get32(f));
        s.width = get32(f);
        s.height = get32(f);
        s.ycc = get32(f);
        s.clean = get32(f);
        s.hash = get32(f);
        s.hash |= (uint64_t)get32(f) << 32;
        if (fread(s.bytes.data(), 1, s.bytes.size(), f) != s.bytes.size())
            exit(2);
    }
    fclose(f);
    return all;
}

/* Sorts the streams that the kernels handle into groups; counts the others. */
static std::map<std::string, group> grouped(std::vector<stream> &all, int *others)
{
    std::map<std::string, group> groups;
    jpeg_header *h = new jpeg_header;
    jpeg_set *set = new jpeg_set();
    for (stream &s : all) {
        jpeg_geometry g;
        if (jpeg_header_read(h, s.bytes.data(), s.bytes.size(), NULL) ||
            (size_t)h->width * h->height > 1 << 22 || !jpeg_tables_make(h, s.ycc, &g, set)) {
            ++*others;
            continue;
        }
        jpeg_tables_codes(h, set);
        s.scan = h->scan_offset;
        for (int p = 0; p < set->pairs; p++) {
            const uint8_t *data = s.bytes.data() + s.scan;
            s.dht[p][0] = (uint32_t)(data - h->dc[set->dc[p]].stored);
            s.dht[p][1] = (uint32_t)(data - h->ac[set->ac[p]].stored);
        }
        group &to =
            groups[std::string((char *)&g, sizeof g) + std::string((char *)set, sizeof *set)];
        to.geometry = g;
        to.set.assign(1, *set);
        to.streams.push_back(&s);
    }
    delete h;
    delete set;
    return groups;
}

static uint64_t hash(const uint8_t *p, size_t n)
{
    uint64_t h = 14695981039346656037u;
    for (size_t k = 0; k < n; k++)
        h = (h ^ p[k]) * 1099511628211u;
    return h;
}

/* --- on the device --- */

template <class T> static T *on_device(size_t n)
{
    T *p;
    CHECK(cudaMalloc(&p, n * sizeof(T) + 16));
    return p;
}

template <class T> static T *on_device(const std::vector<T> &v)
{
    T *p = on_device<T>(v.size());
    CHECK(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
    return p;
}

static size_t shared_bytes; /* of a block of the device */

/* A batch with all its memory. */
struct job {
    jpeg_batch b;
    std::vector<uint8_t> stored;

    job(const group &g, const std::vector<const stream *> &streams, int way)
    {
        std::vector<jpeg_tile> tiles;
        size_t stripped = 0, entries = 0;
        for (size_t k = 0; k < streams.size(); k++) {
            const stream &s = *streams[k];
            jpeg_tile t = {};
            t.stored = stored.size() + s.scan;
            t.bytes = (uint32_t)(s.bytes.size() - s.scan);
            t.place = t.number = (uint32_t)k;
            t.most = jpeg_most_entries(&g.geometry, t.bytes);
            memcpy(t.dht, s.dht, sizeof t.dht);
            stored.insert(stored.end(), s.bytes.begin(), s.bytes.end());
            tiles.push_back(t);
        }
        std::stable_sort(tiles.begin(), tiles.end(),
                         [](const jpeg_tile &x, const jpeg_tile &y) { return x.bytes > y.bytes; });
        for (jpeg_tile &t : tiles) {
            t.stripped = stripped;
            t.entries = entries;
            stripped += (t.bytes + 15) / 16 * 16;
            entries += (t.most + JPEG_MARGIN + 3) / 4 * 4;
        }
        const size_t n = streams.size();
        b.geometry = g.geometry;
        if (way & BY_RUNS || !jpeg_pixels_fit(&b.geometry, shared_bytes))
            jpeg_cut_runs(&b.geometry);
        b.d_sets = on_device(g.set);
        b.shared_bytes = shared_bytes;
        b.pairs = g.set[0].pairs;
        b.n = (int32_t)n;
        b.wide = false;
        b.d_tiles = on_device(tiles);
        b.d_stored = on_device(stored);
        b.d_stripped = on_device<uint8_t>(stripped + JPEG_SLACK);
        b.d_bytes = on_device<uint32_t>(n);
        b.d_restarts = on_device<uint32_t>(n * jpeg_restarts(&g.geometry));
        b.d_entries = on_device<uint32_t>(entries);
        b.d_rows = on_device<uint32_t>(n * (b.geometry.mcu_rows + 1));
        b.d_own = way & OWN_TABLES ? on_device<jpeg_own>(n) : NULL;
        b.d_planes = on_device<uint8_t>(n * jpeg_planes_bytes(&b.geometry));
        b.d_status = on_device<uint8_t>(n);
        b.d_pixels = on_device<uint8_t>(n * pixel_bytes());
    }

    size_t pixel_bytes() const
    {
        return jpeg_tile_bytes(&b.geometry);
    }

    ~job()
    {
        void *all[] = {(void *)b.d_sets, (void *)b.d_tiles, (void *)b.d_stored,
                       b.d_stripped,     b.d_bytes,         b.d_restarts,
                       b.d_entries,      b.d_rows,          b.d_status,
                       b.d_pixels,       b.d_own,           b.d_planes};
        for (void *p : all)
            CHECK(cudaFree(p));
    }
};

static int check(const char *path)
{
    int others = 0, decoded = 0, clean_left = 0, left = 0, bad = 0;
    std::vector<stream> all = load(path);
    auto groups = grouped(all, &others);
    for (auto &entry : groups)
        for (int way = 0; way < WAYS; way++) {
            group &g = entry.second;
            job j(g, g.streams, way);
            CHECK(cudaMemset(j.b.d_pixels, 0xa5, j.b.n * j.pixel_bytes()));
            j.b.wide = j.b.n % 2; /* both forms of the kernel */
            jpeg_strip(&j.b, 0);
            jpeg_huffman(&j.b, 0);
            jpeg_pixels(&j.b, 0);
            CHECK(cudaGetLastError());
            CHECK(cudaDeviceSynchronize());
            std::vector<uint8_t> status(j.b.n), pixels(j.b.n * j.pixel_bytes());
            CHECK(cudaMemcpy(status.data(), j.b.d_status, status.size(), cudaMemcpyDeviceToHost));
            CHECK(cudaMemcpy(pixels.data(), j.b.d_pixels, pixels.size(), cudaMemcpyDeviceToHost));
            for (int k = 0; k < j.b.n; k++) {
                const stream &s = *g.streams[k];
                if (status[k] != JPEG_DECODED) {
                    clean_left += s.clean;
                    left++;
                    continue;
                }
                decoded++;
                if (!s.clean ||
                    hash(pixels.data() + k * j.pixel_bytes(), j.pixel_bytes()) != s.hash) {
                    if (bad++ < 20)
                        printf(
                            "not ok: stream of %zu bytes, %u x %u, sampling %d, YCbCr %u, restarts "
                            "%d, clean %u, way %d\n",
                            s.bytes.size(), s.width, s.height, g.geometry.sampling, s.ycc,
                            g.geometry.restart_interval, s.clean, way);
                }
            }
        }
    printf("%s: %zu streams: %d decoded on the device, %d wrong; left to the host: %d by their "
           "header, %d by the kernels, of "
           "which %d are clean\n",
           path, all.size(), decoded, bad, others, left, clean_left);
    return bad > 0;
}

/* --- the entropy decoder on the host: do the entries make sense? --- */

static size_t strip_on_host(const stream &s, std::vector<uint8_t> &out,
                            std::vector<uint32_t> &restarts)
{
    for (size_t k = s.scan; k < s.bytes.size(); k++) {
        const int c = s.bytes[k], next = k + 1 < s.bytes.size() ? s.bytes[k + 1] : 0xff;
        if (c != 0xff) {
            out.push_back((uint8_t)c);
            continue;
        }
        k++;
        if (next == 0)
            out.push_back(0xff);
        else if (next >= 0xd0 && next <= 0xd7)
            restarts.push_back((uint32_t)out.size());
        else
            break;
    }
    return out.size();
}

struct host_memory {
    enum { IDLE = JPEG_PAIRS << (JPEG_LOOKUP + 1) };
    const uint32_t *words;
    const uint64_t *lookup;
    std::vector<uint32_t> &entries;
    uint32_t *row_start;
    uint32_t word(uint32_t k, bool wanted) const
    {
        return wanted ? words[k] : 0;
    }
    uint64_t entry(uint32_t k, uint32_t) const
    {
        return k == IDLE ? (uint64_t)JPEG_IDLE : lookup[k];
    }
    void put(uint32_t n, uint32_t e)
    {
        entries.at(n) = e;
    }
    void row(uint32_t k, uint32_t n)
    {
        row_start[k] = n;
    }
};

template <bool RESTARTS>
static bool decode_on_host(const group &g, const jpeg_work &l, std::vector<uint32_t> &out)
{
    host_memory m = {l.words, &g.set[0].lookup[0][0][0], out, l.row_start};
    jpeg_state t;
    const uint32_t row_end = (uint32_t)(g.geometry.mcu_cols * g.geometry.mcu_blocks) << 6;
    jpeg_begin(&t, &g.geometry, g.set[0].pair_of, m);
    while (t.active) {
        for (int k = 0; k < 4; k++)
            jpeg_step<RESTARTS, true>(&t, &g.geometry, &l, row_end, m);
        jpeg_rare<RESTARTS, true>(&t, &g.geometry, g.set.data(), &l, row_end, m);
        jpeg_check(&t, &l, m);
    }
    return !t.unusual;
}

/* libjpeg's islow inverse DCT in one direction, without its rounding: eight values, `step` apart.
 */
static void islow(const int *x, int step, int *out)
{
    static const int c[] = {4433,  15137, 6270, 9633,  2446,  16819,
                            25172, 12299, 7373, 20995, 16069, 3196};
    const int z = (x[2 * step] + x[6 * step]) * c[0];
    const int e2 = z - x[6 * step] * c[1], e3 = z + x[2 * step] * c[2];
    const int e0 = (x[0] + x[4 * step]) * 8192, e1 = (x[0] - x[4 * step]) * 8192;
    const int a[4] = {e0 + e3, e1 + e2, e1 - e2, e0 - e3};
    const int o0 = x[7 * step], o1 = x[5 * step], o2 = x[3 * step], o3 = x[step];
    const int z5 = (o0 + o2 + o1 + o3) * c[3];
    const int z1 = -(o0 + o3) * c[8], z2 = -(o1 + o2) * c[9];
    const int z3 = -(o0 + o2) * c[10] + z5, z4 = -(o1 + o3) * c[11] + z5;
    const int b[4] = {o3 * c[7] + z1 + z4, o2 * c[6] + z2 + z3, o1 * c[5] + z2 + z4,
                      o0 * c[4] + z1 + z3};
    for (int k = 0; k < 4; k++) {
        out[k] = a[k] + b[k];
        out[7 - k] = a[k] - b[k];
    }
}

/* Samples of a block of dequantised coefficients, [row][column], 0 to 255. */
static void samples_of(const int *coefficients, uint8_t out[64])
{
    int half[64], line[8];
    for (int x = 0; x < 8; x++) {
        islow(coefficients + x, 8, line);
        for (int y = 0; y < 8; y++)
            half[y * 8 + x] = (line[y] + (1 << 10)) >> 11;
    }
    for (int y = 0; y < 8; y++) {
        islow(half + y * 8, 1, line);
        for (int x = 0; x < 8; x++)
            out[y * 8 + x] =
                (uint8_t)std::min(std::max(((line[x] + (1 << 17)) >> 18) + 128, 0), 255);
    }
}

/* Pixels of a tile of gray or RGB 4:4:4 without restart markers from the entries. */
/* Empty if a column is out of the range in which libjpeg-turbo's SIMD code is exact: the kernels
 * leave it to the host. */
static std::vector<uint8_t> pixels_on_host(const group &g, const std::vector<uint32_t> &entries,
                                           const std::vector<uint32_t> &rows)
{
    const jpeg_geometry &m = g.geometry;
    const int components = m.mcu_blocks;
    std::vector<uint8_t> out((size_t)m.width * m.height * components);
    int dc[3] = {0, 0, 0};
    for (int row = 0; row < m.mcu_rows; row++) {
        std::vector<int> blocks((size_t)m.mcu_cols * components * 64);
        for (uint32_t k = rows[row]; k < rows[row + 1]; k++) {
            const uint32_t e = entries[k], block = e >> 6 & 1023,
                           q = g.set[0].scatter[block % components][e & 63];
            blocks[block * 64 + (q & 7) * 8 + (q >> 3 & 7)] =
                ((int)e >> 20) * ((e & 63) ? (int)(q >> 16) : 1);
        }
        for (int b = 0; b < m.mcu_cols * components; b++) {
            const int c = b % components;
            uint8_t samples[64];
            dc[c] += blocks[b * 64];
            blocks[b * 64] = dc[c] * (int)(g.set[0].scatter[c][0] >> 16);
            for (int x = 0; x < 8; x++) {
                int sum = 0;
                for (int y = 0; y < 8; y++)
                    sum += abs(blocks[b * 64 + y * 8 + x]);
                if (sum > 2896)
                    return {};
            }
            samples_of(&blocks[b * 64], samples);
            for (int k = 0; k < 64; k++) {
                const int y = row / m.parts * 8 + k / 8,
                          x = (row % m.parts * m.mcu_cols + b / components) * 8 + k % 8;
                if (y < m.height && x < m.width)
                    out[((size_t)y * m.width + x) * components + c] = samples[k];
            }
        }
    }
    return out;
}

/* Decodes what the kernels take. A clean stream must be decoded, as far as nothing was changed in
 * it (all clean streams of a file without damaged ones); pixels are compared where they follow from
 * the entries alone. */
static int host(const char *path)
{
    int others = 0, decoded = 0, clean_left = 0, compared = 0, wrong = 0;
    std::vector<stream> all = load(path);
    for (auto &entry : grouped(all, &others)) {
        group &g = entry.second;
        for (const stream *s : g.streams) {
            std::vector<uint8_t> data;
            std::vector<uint32_t> restarts, out, rows(g.geometry.mcu_rows + 1);
            const size_t n = strip_on_host(*s, data, restarts);
            const uint32_t most = jpeg_most_entries(&g.geometry, (uint32_t)s->bytes.size());
            data.resize((n + 3) / 4 * 4 + JPEG_SLACK);
            out.resize(most + JPEG_MARGIN);
            const jpeg_work l = {(const uint32_t *)data.data(),
                                 (uint32_t)n,
                                 out.data(),
                                 most,
                                 rows.data(),
                                 restarts.data(),
                                 (uint32_t)restarts.size()};
            const bool ok = g.geometry.restart_interval ? decode_on_host<true>(g, l, out)
                                                        : decode_on_host<false>(g, l, out);
            decoded += ok;
            clean_left += !ok && s->clean;
            wrong += ok && s->width == 0; /* libjpeg-turbo cannot even begin */
            if (!ok || !s->clean || g.geometry.sampling > JPEG_444 || g.geometry.ycc ||
                g.geometry.restart_interval || g.geometry.parts == 0)
                continue;
            const std::vector<uint8_t> pixels = pixels_on_host(g, out, rows);
            if (pixels.empty())
                continue;
            compared++;
            wrong += hash(pixels.data(), pixels.size()) != s->hash;
        }
    }
    printf("%s: %zu streams: %d decoded, of %d the pixels were compared, %d wrong; left to the "
           "host's decoder: %d by "
           "their header; %d clean ones by the decoder\n",
           path, all.size(), decoded, compared, wrong, others, clean_left);
    return wrong > 0;
}

/* --- bench --- */

static double median(std::vector<float> v)
{
    std::sort(v.begin(), v.end());
    return v[v.size() / 2];
}

static void bench_tiles(const group &g, size_t n, bool wide, int way)
{
    std::vector<const stream *> streams;
    uint64_t x = 1;
    for (size_t k = 0; k < n; k++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        streams.push_back(g.streams[(x >> 33) % g.streams.size()]);
    }
    job j(g, streams, way);
    j.b.wide = wide;
    std::vector<float> times[4];
    cudaEvent_t at[4];
    for (cudaEvent_t &e : at)
        CHECK(cudaEventCreate(&e));
    for (int round = 0; round < 6; round++) {
        CHECK(cudaEventRecord(at[0]));
        jpeg_strip(&j.b, 0);
        CHECK(cudaEventRecord(at[1]));
        jpeg_huffman(&j.b, 0);
        CHECK(cudaEventRecord(at[2]));
        jpeg_pixels(&j.b, 0);
        CHECK(cudaEventRecord(at[3]));
        CHECK(cudaDeviceSynchronize());
        for (int k = 0; k < 4 && round > 0; k++) {
            float ms;
            CHECK(cudaEventElapsedTime(&ms, at[k < 3 ? k : 0], at[k < 3 ? k + 1 : 3]));
            times[k].push_back(ms);
        }
    }
    std::vector<uint8_t> status(n);
    CHECK(cudaMemcpy(status.data(), j.b.d_status, n, cudaMemcpyDeviceToHost));
    printf("%s%s%s %6zu tiles of %d x %d, %4zu MB: strip %5.2f, huffman %5.2f, pixels %5.2f, all "
           "%5.2f "
           "ms, %5.1f Gpx/s; %zu for the host\n",
           wide ? "wide  " : "narrow", way & OWN_TABLES ? ", own tables" : "",
           way & BY_RUNS ? ", runs" : "", n, g.geometry.width, g.geometry.height,
           j.stored.size() >> 20, median(times[0]), median(times[1]), median(times[2]),
           median(times[3]),
           (double)n * g.geometry.width * g.geometry.height / median(times[3]) * 1e-6,
           n - (size_t)std::count(status.begin(), status.end(), JPEG_DECODED));
    for (cudaEvent_t &e : at)
        CHECK(cudaEventDestroy(e));
}

static int bench(const char *path, size_t tiles)
{
    int others = 0;
    std::vector<stream> all = load(path);
    auto groups = grouped(all, &others);
    for (auto &entry : groups) {
        const group &g = entry.second;
        if (g.streams.size() < 50)
            continue;
        const size_t px = (size_t)g.geometry.width * g.geometry.height;
        printf("%s: sampling %d, %zu streams\n", path, g.geometry.sampling, g.streams.size());
        for (size_t n :
             {tiles * 57600 / px, (size_t)16000, (size_t)8000, (size_t)4000, (size_t)1150})
            for (int way = 0; way < 2 + WAYS; way++)
                bench_tiles(g, n, way != 0, way < 2 ? 0 : way - 2);
    }
    return 0;
}

int main(int argc, char **argv)
{
    int bad = argc < 3;
    if (argc >= 3 && strcmp(argv[1], "host")) {
        cudaDeviceProp p;
        CHECK(cudaGetDeviceProperties(&p, 0));
        shared_bytes = p.sharedMemPerBlockOptin;
        CHECK(jpeg_prepare(shared_bytes));
    }
    for (int k = 2; k < argc; k++) {
        if (!strcmp(argv[1], "check"))
            bad |= check(argv[k]);
        else if (!strcmp(argv[1], "host"))
            bad |= host(argv[k]);
        else if (k == 2)
            bad |= bench(argv[k], argc > 3 ? (size_t)atol(argv[3]) : 48780);
    }
    return bad;
}
