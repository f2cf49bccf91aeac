/*
 * spectrum_open.h - which backend and devices a run uses.
 */
#ifndef WSI_SPECTRUM_OPEN_H
#define WSI_SPECTRUM_OPEN_H

#include "process/spectrum/spectrum.h"

/* Reads a --device word: auto, cpu, cuda, or cuda:0,1. */
int spectrum_parse_choice(const char *word, struct spectrum_choice *c, struct err *e);
/* Where no CUDA device can be used, SPECTRUM_AUTO becomes SPECTRUM_CPU; *note says why, else "". */
void spectrum_settle(struct spectrum_choice *c, struct err *note);
/* Opens the chosen backend. With SPECTRUM_AUTO, devices that cannot be used are left out; with none
 * left, the CPU computes. *note says what was taken and why, or is "". Call spectrum_close() either
 * way. */
int spectrum_open(struct spectrum_use *u, const struct spectrum_setup *s, struct err *note,
                  struct err *e);
void spectrum_close(struct spectrum_use *u);
/* Names of the devices whose bits are set, as in "cuda:0,1 NVIDIA H200"; 0: of all. */
void spectrum_describe(const struct spectrum_use *u, uint64_t devices, char *text, size_t bytes);
/* Can this build use a CUDA device on this machine? If not, the reason is in *e. */
bool spectrum_has_cuda(struct err *e);

/* -1: this build has no backend for CUDA devices. */
int spectrum_check_build(struct err *e);
/* "cpu" and so on: the backends of this build, for --version. */
const char *spectrum_backends(void);

#endif
