/*
 * version.h - the release of this source.
 *
 * Stores and results name it as their creator ("wsi2h5 1.0.0"), so it must be the same in every
 * build of one release. What differs between builds is in wsi_build.h, which make writes into the
 * build folder: WSI_BUILD is ", build " and the output of `git describe`, or "" without git;
 * WSI_CUDA_ARCHS names the GPU architectures with kernels ("sm_80 sm_90"), or is "". Only the files
 * that print --version include wsi_build.h:
 *
 *     printf("h5spec " WSI_VERSION " (" WSI_DATE WSI_BUILD ")\n");
 */
#ifndef WSI_VERSION_H
#define WSI_VERSION_H

#define WSI_VERSION "1.1.0"
#define WSI_DATE "2026-11-28"
#define WSI_BUGS "Report bugs to the project's issue tracker, with this text and the command."

#endif
