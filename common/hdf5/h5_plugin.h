/*
 * h5_plugin.h - can other programs on this machine read stores of kept tiles?
 *
 * They need our HDF5 plug-in, libh5jpeg.so or libh5j2k.so, in a folder where their HDF5 looks:
 * those of the variable HDF5_PLUGIN_PATH, or the library's own one. Ours never loads it. Not while
 * other threads use HDF5.
 */
#ifndef WSI_H5_PLUGIN_H
#define WSI_H5_PLUGIN_H

#include "common/codec/codec.h"

#include <stdbool.h>

enum { H5_PLUGIN_PATH = 4096 };

/* The first folder where HDF5 looks for plug-ins. False: it does not say. */
bool h5_plugin_folder(char folder[H5_PLUGIN_PATH]);
/* "" when one of these folders has the plug-in of a codec that keeps tiles; else the command that
 * sets the variable to the folder of the plug-in that came with this program. The text is
 * overwritten by the next call. */
const char *h5_plugin_advice(const struct codec *c);

#endif
