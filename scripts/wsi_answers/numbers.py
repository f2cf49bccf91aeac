"""The numbers that slides are compared by: one row each, with its words and its limits. A rule is changed here.

A number sets a flag in two ways: by its distance to the median of its pool (robust z), and by a limit that holds for all slides.
tests/FIGURES.md says which data chose the limits, and how often good slides exceed them.
"""
from dataclasses import dataclass, field

LEAST = 10    # values that make a median and a MAD
FLAG = 3.5    # a robust z above this is unusual (Iglewicz & Hoaglin, 1993)

NO_PICTURE, OF_MAP, OF_SLIDE = range(3)    # which picture of a slide shows what a number says


@dataclass(frozen=True)
class Number:
    name: str                 # in tables
    title: str                # on the page
    unit: str                 # " dB", "" ... behind a value; " %": a share, shown in percent
    digits: int               # behind the point, as shown
    definition: str
    range: str = "any"        # what limits may be: see limits.py
    low: str = ""             # what an unusually low or high value means; "": it is no flag
    high: str = ""
    angle: bool = False       # degrees: 359 and 1 differ by 2
    ratio: bool = False       # %s of the words is how many times the median the value is
    unsure: bool = False      # of few slides high values need more: 1 + FEW / slides times the z
    skewed: bool = False      # real groups are: what is usual is wider on their long side
    least_value: float = 0    # values below are a flag; 0: none
    low_below: float = 0      # a low value is a flag only below this; 0: any may be
    most: float = 0           # values above are a flag; 0: none
    widens: bool = False      # up to twice as much, where the group's slides are near that
    spreads: bool = False     # no flag up to four times the third quartile of the group; without a group up to SHARE_ALONE
    least: float = 0          # a smaller difference from the median is no flag, whatever its z; with `ratio`, a part of the median
    times: float = 0          # a smaller ratio to the median, or of the median, is no flag; 0: any may be
    floor: float = 0          # a smaller MAD counts as this: values that differ by less mean nothing
    specific: bool = False    # it names the cause, so it comes before numbers that only notice it
    picture: int = NO_PICTURE
    sharpness: int = 0        # it says how sharp tissue is; of several the one with the least rank is said
    stain_kind: bool = False  # a slide of another stain or tissue differs in it, too
    place: str = ""           # where it shows: see places.py
    implied_by: tuple = field(default=())  # what says the same better: numbers that are flags, or facts of reasons.py

    @property
    def scored(self):
        """Has it a z?"""
        return bool(self.low or self.high)

    @property
    def share(self):
        return self.unit == " %"

    @property
    def on_page(self):
        """Can it set a flag, or rank slides? The others are in tables only."""
        return self.scored or self.most > 0 or self.name == W1


W1 = "w1_db"
OF_TISSUE = "of the windows of which at least half is tissue"
NOT_SHARP = "tissue less sharp than in the others: focus, or enlarged by software"

NUMBERS = (
    Number("mean_db", "amount of detail", " dB", 1, "mean of all log magnitudes of the slide; more tissue gives more", range="mean_db"),
    Number("std_db", "spread of detail", " dB", 1, "standard deviation of all log magnitudes of the slide", range="std_db"),
    Number("focus_p50", "sharpness, typical", " dB", 1, "median of focus_db " + OF_TISSUE, range="difference_db", low=NOT_SHARP,
           high="fine detail stronger than in the others: sharpening, noise or a wrong um per px", unsure=True, least=1,
           picture=OF_MAP, sharpness=1, stain_kind=True),
    Number("sharp_p50", "sharpness of fine detail", " dB", 1, "median of sharp_db " + OF_TISSUE, low=NOT_SHARP,
           high="fine detail stronger than in the others: scanner, sharpening or a wrong um per px", unsure=True, least=1,
           picture=OF_MAP, sharpness=2, stain_kind=True),
    Number("sharp_p05", "least sharp tissue", " dB", 1, "5th percentile of sharp_db " + OF_TISSUE,
           low="part of the tissue less sharp than any on the others: a strip or a region out of focus", least=1.5, picture=OF_MAP,
           sharpness=3, stain_kind=True),
    Number("pieces_sharp", "sharpness of small pieces", " dB", 1,
           "median of sharp_db of windows that are at least 1/20 tissue, on slides of which no window is half tissue",
           low="small pieces less sharp than on the others: focus, or enlarged by software",
           high="small pieces with stronger fine detail than on the others: sharpening, noise, or more of them", unsure=True, least=1,
           picture=OF_SLIDE, stain_kind=True),
    Number("fine_p50", "finest detail", " dB", 1, "median of fine_db " + OF_TISSUE, range="difference_db",
           low="the finest detail is weaker than in the others: focus, compression, or enlarged by software",
           high="the finest detail is stronger than in the others: noise, lines of the camera, or sharpening", unsure=True, least=0.5,
           picture=OF_MAP, sharpness=5, stain_kind=True, implied_by=("has_cause",)),
    Number("blurred_share", "blurred part of the tissue", " %", 0,
           "part " + OF_TISSUE + " whose focus_db is below the median of all such windows of the comparison group, less 3.5 robust "
           "standard deviations", range="share", most=0.01, picture=OF_MAP, stain_kind=True),
    Number("slope", "fall of the spectrum", "", 2, "how steeply the level falls over four octaves of spatial frequency"),
    Number("tissue_fraction", "tissue", " %", 0, "part of the slide's area that the tissue map marks", range="share",
           low="much less tissue than on the others", high="much more tissue than on the others", times=3, specific=True,
           picture=OF_SLIDE, implied_by=("light_step",)),
    Number("glass_std", "noise of the glass", " levels", 2, "standard deviation of the gray of pure glass within 32 px, median",
           low="the glass is smoother than that of the others: other compression or scanner",
           high="the glass is not as even as that of the others", floor=0.06, skewed=True, specific=True, picture=OF_SLIDE),
    Number("glass_range", "evenness of the light", " levels", 1,
           "by how much the gray of pure glass differs from place to place, 5th to 95th percentile",
           high="the glass is brighter in some places than in others: shading of fields, unequal tiles, or dust; calibrate the white",
           floor=0.3, skewed=True, specific=True, picture=OF_SLIDE, implied_by=("light_step",)),
    Number("glass_lines", "lines on the glass", " %", 0,
           "part of the places of pure glass, 32 px each, whose gray varies most from row to row, or most from column to column, "
           "whichever is larger", range="share", most=0.7, specific=True, picture=OF_SLIDE),
    Number("stain_density", "stain density", "", 2,
           "mean optical density -log10(value / 255) of the tissue in the thumbnail, mean of the three channels",
           low="stain %s times as dense as that of the others", high="stain %s times as dense as that of the others, or pen", ratio=True,
           skewed=True, least=0.2, picture=OF_SLIDE, stain_kind=True, place="dense"),
    Number("stain_hue", "stain hue", " degrees", 0,
           "angle of the optical densities of the tissue in the thumbnail in the plane of hue and saturation (van der Laak, 2000)",
           low="another colour than the others: stain, pen or scanner", high="another colour than the others: stain, pen or scanner",
           angle=True, skewed=True, least=6, picture=OF_SLIDE, stain_kind=True, place="hue"),
    Number("gray_share", "gray and black areas", " %", 1, "part of the thumbnail that is dark and has no colour, which no stain is",
           range="share", most=0.001, spreads=True, specific=True, picture=OF_SLIDE),
    Number("ink_share", "areas of another colour", " %", 1,
           "part of the thumbnail that is greener than red, which a pink stain never is, or unlike the slide's own stain; of a blue or "
           "green stain only areas count", range="share", most=0.002, spreads=True, specific=True, picture=OF_SLIDE,
           implied_by=("gray_share",)),
    Number("light_step", "step of the light", " levels", 0,
           "by how much the glass differs on both sides of a straight line across the slide, in the channel where it differs most",
           most=6, widens=True, specific=True, picture=OF_SLIDE),
    Number("colourless_share", "tissue without colour", " %", 0, "part of the tissue in the thumbnail that has no colour",
           range="share", most=0.95, specific=True, picture=OF_SLIDE),
    Number("glass_gray", "brightness of the glass", " levels", 1, "median gray of pure glass",
           low="darker glass than on the others: lamp or exposure; calibrate the white",
           high="brighter glass than on the others: exposure, gamma, or white tiles", skewed=True, least_value=150, floor=0.55,
           specific=True, picture=OF_SLIDE, implied_by=("light_step",)),
    Number("gray_low", "darkest place", " levels", 0, "gray than which 1 of 500 pixels of the thumbnail is darker",
           low="an area is far darker than anything on the others", low_below=64, floor=4, skewed=True, specific=True,
           picture=OF_SLIDE, stain_kind=True, implied_by=("is_dense", "gray_share", "is_underexposed")),
    Number("gray_high", "brightest place", " levels", 0, "gray than which 1 of 100 pixels of the thumbnail is brighter",
           low="nothing is as bright as the glass of the others: dark exposure, or no glass", floor=6, skewed=True, specific=True,
           picture=OF_SLIDE, stain_kind=True),
    Number("lines_db", "pattern of lines", " dB", 1,
           "how far the strongest narrow peak on an axis of the mean spectra is above its neighbours, but for periods of 8 px and their "
           "harmonics, which are JPEG's", range="difference_db", most=6, widens=True, specific=True),
    Number("seams", "straight edges", "", 0,
           "rows and columns of pixels behind which the tissue changes most in so many places that chance does not explain it",
           range="from_0", most=2, widens=True, specific=True, picture=OF_SLIDE),
    Number("direction_db", "direction of the detail", " dB", 1,
           "by how much detail of 4 to 16 px is weaker in one direction than across it, less the same of detail of 16 to 32 px",
           high="motion", least=1.2, floor=0.2, specific=True, stain_kind=True),
    Number("detail_4px_db", "detail of 4 px", " dB", 1,
           "level of the tissue's mean spectrum at periods of 4 to 4.8 px, less that at 17 to 25 px"),
    Number("detail_7px_db", "detail of 7 px", " dB", 1, "the same at periods of 6.2 to 8.3 px"),
    Number("detail_fall_db", "finest beside fine detail", " dB", 1,
           "detail of 4 px less detail of 7 px, which differs little from tissue to tissue",
           low="the finest detail is weaker beside fine detail than in the others: slight defocus, or enlarged by software", least=1,
           floor=0.2, sharpness=4, stain_kind=True, implied_by=("has_cause",)),
    Number("jpeg_quality", "JPEG quality", "", 0, "from the quantisation tables of the slide's tiles, 1 to 100",
           low="compressed more strongly than the others", high="compressed less strongly than the others", floor=1, specific=True),
    Number("jpeg_twice", "signs of an earlier compression", "", 2,
           "0 to 1: how periodic the coefficients of the slide's tiles are, which an earlier, stronger compression causes",
           range="share", most=0.2, picture=OF_SLIDE),
    Number(W1, "difference from the others", " dB", 1,
           "W1 distance: area between the slide's cumulative histogram and the pointwise median of the comparison group's; it ranks "
           "slides and sets no flag", range="distance_db"),
)
BY_NAME = {m.name: m for m in NUMBERS}
FLAGS = NUMBERS[:-1]    # those that can be a flag, or have quartiles: all but the distance
SHARPNESS = [m.name for m in sorted(NUMBERS, key=lambda m: m.sharpness) if m.sharpness]    # from the one that says most

# --- what is compared (groups.py), and what is usual (scores.py) ---

UNKNOWN_SIZES = 4        # times: pictures of unknown um per px whose longer sides differ by this are not of one kind of scan, so their
                         # magnification is not assumed to be equal

SHARE_ALONE = 0.01       # limit of a share of the thumbnail where no group shows what is usual; a real H&E slide has 0.006
SHARE_OF_GROUP = 4       # times the third quartile of the group: a share up to this is usual there, and so is any number of which half
                         # of the group exceed the limit
FEW = 6                  # times FLAG / slides is added to the limit: the MAD of few slides is uncertain
MOST_WIDENED = 2         # the limit of a number grows to at most this multiple where its group comes close to it
LEAST_BLURRED = 2        # windows: a single blurred one may be a fold or a lumen

# --- causes (reasons.py) ---

DENSE = 2.5              # times the group's stain density: no stain is as dense, so the area is black
BLACK = 55               # gray level that 1 of 500 pixels is below: a black pen had 31 and 44, gray tiles, dust and bubbles 74 to 133
LEAST_BLACK = 0.001      # share of the thumbnail: with less black and gray than this, a dark place is coloured
GRAY_OF_STAIN = 0.08     # the same: dark nuclei and brown stain cover up to 0.06 of immunostained pictures; more means lost tiles
GRAIN = 0.5              # share of the glass's variation that is noise from pixel to pixel: below this it is shading
BLOCK, BLOCK_OFF = 8, 0.02    # px, and a share: blocks of a codec have periods of 8, 16, 24 ... px, within the error of measuring
EARLIER_GRID = 0.5       # share of the glass whose greatest steps are at one place of 8 px (glass_grid): above it these are the borders
                         # of an earlier JPEG's blocks. Crops 4 px beside the grid had 0.91 to 0.98, a slide and its crops on the grid
                         # 0.04 to 0.08
TILES = (128, 240)       # px: older results do not have the size of the tiles; most are a multiple of these
# Enlarged by software: robust z and dB of lost detail of 4 px, the least MAD (dB), and the part of that loss that detail of 7 px may
# have; any lens takes more from it.
ENLARGED_Z, ENLARGED_DB, ENLARGED_MAD, ENLARGED_PART = 5, 1, 0.15, 0.33
# Motion: the least part of the lost detail that is lost in one direction only; dB of direction alone, where cells may lie one way; dB
# of detail of 4 px that only motion takes away.
MOTION_PART, MOTION_ALONE, MOTION_LOST = 0.2, 2, 3
USUAL_GLASS = 0.9        # tissue share: a group with less than this in three quarters of its slides usually shows glass
DOUBTFUL_TISSUE = 0.005  # share of the slide: a tissue map with less tissue, or less glass, may be wrong

# --- places (places.py) ---

SPREAD = 0.3             # of the slide's size, root mean square: windows farther apart are in many places

# --- two kinds (kinds.py) ---

KIND_SHARE = 8           # at least one in so many slides makes a kind; fewer are outliers
LEAST_KIND, LEAST_BEYOND = 5, 4    # fewest slides of a second kind: found by one or two numbers, and by a gap
LEAST_OF_TWO = 20        # slides of a group that is searched for two kinds by one or two numbers
GAP_LEAST, GAP_MOST = 12, 10000    # slides of a group that is searched for a gap: time grows with the square of their number
LEAST_USUAL = 0.6        # in units of the usual difference within one kind: several pictures of one slide are closer than slides are
GAP_OF_KIND, GAP_OF_ONE = 2.5, 3.0    # times the usual distance: groups of real pictures of one data set had up to 2.4 and 2.9
GAP_OF_STAIN, GAP_OF_DETAIL = 1.5, 3  # the same: how far a slide that is alone is from all others; black tiles change both by 1 to 2
OWN_SCALE = 0.75         # times the robust standard deviation of a pool: the least scale of a number
