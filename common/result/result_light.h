/*
 * result_light.h - does the light of a slide change along a straight line, as where the exposure or
 * the white balance was changed in the middle of a scan?
 *
 * Glass are the pixels of the thumbnail whose 3 x 3 neighbours differ by at most 4 levels in each
 * channel, which are nearly as bright as white, hardly coloured and not saturated. Every line along
 * the rows and along the columns cuts it in two, with at least 1/50 of the thumbnail on each side.
 * A step is a difference between the medians of both sides that is at least twice what either side
 * varies by (10th to 90th percentile), in any channel. A slow change, such as the shading of
 * fields, is no step.
 *
 * Any thread.
 */
#ifndef WSI_RESULT_LIGHT_H
#define WSI_RESULT_LIGHT_H

#include "common/result/result.h"

struct result_light {
    double step[3]; /* levels: red, green and blue behind the line less those before it; 0: no step;
                     * NaN: less glass than needed */
    double at[2]; /* x and y of the line, as parts of the thumbnail's width and height; NaN for the
                     * one that it runs along, and where there is no step */
};

/* The greatest and the least channel of a pixel. */
static inline int result_greatest(const uint8_t rgb[3])
{
    const int high = rgb[0] > rgb[1] ? rgb[0] : rgb[1];
    return rgb[2] > high ? rgb[2] : high;
}

static inline int result_least(const uint8_t rgb[3])
{
    const int low = rgb[0] < rgb[1] ? rgb[0] : rgb[1];
    return rgb[2] < low ? rgb[2] : low;
}

/* The clearest step. */
void result_find_light(const struct result_picture *thumbnail, struct result_light *out);

#endif
