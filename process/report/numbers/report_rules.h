/*
 * report_rules.h - the limits of a report that are not of one number: name, value, unit and why.
 *
 * The limits of each number are its row in report_metric.c. Which data chose them, and how often
 * good slides exceed them, is in tests/FIGURES.md.
 */
#ifndef WSI_REPORT_RULES_H
#define WSI_REPORT_RULES_H

/* --- what is compared, and what is usual (report_scores.c) --- */

/* Times: pictures of unknown um per px whose longer sides differ by this are not of one kind of
 * scan, so their magnification is not assumed to be equal. */
#define RULE_UNKNOWN_SIZES 4

/* Limit of a share of the thumbnail where no group shows what is usual. A real H&E slide has 0.006. */
#define RULE_SHARE_ALONE 0.01
/* Times the third quartile of the group: a share up to this is usual there, and so is any number
 * of which half of the group exceed the limit. */
#define RULE_SHARE_OF_GROUP 4
/* Times STATS_FLAG / slides is added to the limit: the MAD of few slides is uncertain. For 12 slides
 * the limit is half as high again. */
#define RULE_FEW 6
/* The limit of a number grows to at most this multiple where its group comes close to it. */
#define RULE_MOST_WIDENED 2
/* Windows: a single blurred one may be a fold or a lumen. */
#define RULE_LEAST_BLURRED 2

/* --- causes (report_reasons.c) --- */

/* Times the group's stain density: no stain is as dense, so the area is black. */
#define RULE_DENSE 2.5
/* Gray level that 1 of 500 pixels is below (gray_low): a black pen had 31 and 44, gray tiles, dust and
 * bubbles 74 to 133. */
#define RULE_BLACK 55
/* Share of the thumbnail: with less black and gray than this, a dark place is coloured. */
#define RULE_LEAST_BLACK 0.001
/* Share of the thumbnail: dark nuclei and brown stain without colour cover up to 0.06 of immunostained
 * pictures. A larger share means lost tiles, which also change stain and detail. */
#define RULE_GRAY_OF_STAIN 0.08
/* Share of the glass's variation that is noise from pixel to pixel: below this it is shading. */
#define RULE_GRAIN 0.5
/* px, and a share: blocks of a codec have periods of 8, 16, 24 ... px, within the error of measuring. */
#define RULE_BLOCK 8
#define RULE_BLOCK_OFF 0.02
/* Share of the glass whose greatest steps are at one place of 8 px (glass_grid): above it these are
 * the borders of an earlier JPEG's blocks. Crops 4 px beside the grid had 0.91 to 0.98, a slide and
 * its crops on the grid 0.04 to 0.08. */
#define RULE_EARLIER_GRID 0.5
/* Enlarged by software: robust z and dB of lost detail of 4 px, the least MAD (dB), and the part
 * of that loss that detail of 7 px may have; any lens takes more from it. */
#define RULE_ENLARGED_Z 5
#define RULE_ENLARGED_DB 1
#define RULE_ENLARGED_MAD 0.15
#define RULE_ENLARGED_PART 0.33
/* Motion: the least part of the lost detail that is lost in one direction only; dB of direction
 * alone, where cells may lie one way; dB of detail of 4 px that only motion takes away. */
#define RULE_MOTION_PART 0.2
#define RULE_MOTION_ALONE 2
#define RULE_MOTION_LOST 3
/* Tissue share: a group with less than this in three quarters of its slides usually shows glass. */
#define RULE_USUAL_GLASS 0.9

/* --- places (report_places.c) --- */

/* Of the slide's size, root mean square: windows farther apart are in many places. */
#define RULE_SPREAD 0.3

/* --- two kinds (report_kinds.c, report_gap.c) --- */

/* At least one in so many slides makes a kind; fewer are outliers. */
#define RULE_KIND_SHARE 8
/* Fewest slides of a second kind: found by one or two numbers, and by a gap. */
#define RULE_LEAST_KIND 5
#define RULE_LEAST_BEYOND 4
/* In units of the usual difference within one kind: a smaller usual distance counts as this, because
 * several pictures of one slide are closer to each other than slides are. */
#define RULE_LEAST_USUAL 0.6
/* Times the usual distance. Groups of real pictures of one data set had up to 2.4 before a part of
 * that size, and up to 2.9 before a single slide. */
#define RULE_GAP_OF_KIND 2.5
#define RULE_GAP_OF_ONE 3.0
/* Times the usual distance: how far a slide that is alone is from all others, in stain and in detail.
 * Black tiles change the stain, and the detail by 1 to 2. */
#define RULE_GAP_OF_STAIN 1.5
#define RULE_GAP_OF_DETAIL 3
/* Times the robust standard deviation of a pool: the least scale of a number. */
#define RULE_OWN_SCALE 0.75

#endif
