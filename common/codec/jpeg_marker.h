/*
 * jpeg_marker.h - the second bytes of JPEG markers; the first is 0xff (ITU-T T.81, table B.1).
 */
#ifndef WSI_JPEG_MARKER_H
#define WSI_JPEG_MARKER_H

enum jpeg_marker {
    MARKER_SOF0 = 0xc0,
    MARKER_DHT = 0xc4,
    MARKER_JPG = 0xc8,
    MARKER_DAC = 0xcc,
    MARKER_SOF15 = 0xcf,
    MARKER_RST0 = 0xd0,
    MARKER_RST7 = 0xd7,
    MARKER_SOI = 0xd8,
    MARKER_EOI = 0xd9,
    MARKER_SOS = 0xda,
    MARKER_DQT = 0xdb,
    MARKER_DRI = 0xdd,
    MARKER_APP0 = 0xe0,
    MARKER_APP14 = 0xee,
    MARKER_APP15 = 0xef,
    MARKER_COM = 0xfe,
};

#endif
