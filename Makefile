# wsi2h5 and h5spec. `make help` says what there is to make.
#
# Libraries are found by pkg-config; what is not there is left out, and `make` says so:
#   h5spec   needs HDF5 and zlib; libdeflate, LZ4, Zstandard and CUDA are used where they are
#   wsi2h5   needs HDF5, zlib, OpenSlide, libtiff, libjpeg and OpenJPEG; libdeflate is used where it is
# Force parts off: CUDA=0 LIBDEFLATE=0 LZ4=0 ZSTD=0 OPENSLIDE=0. Sanitizers: SAN=address,undefined, SAN=thread.

CC       = cc
NVCC     = nvcc
CFLAGS   = -O2 -g
PREFIX   = /usr/local
PYTHON   = $(shell for p in python3 /usr/bin/python3; do \
             $$p -c 'import h5py, numpy' 2>/dev/null && { echo $$p; break; }; done)
VERSION := $(shell sed -n 's/.*WSI_VERSION "\(.*\)"/\1/p' common/cli.h)

# --- what is here ---
pkg       = $(shell pkg-config $(1) $(2) 2>/dev/null)
has       = $(shell pkg-config --exists $(1) 2>/dev/null && echo 1)
HDF5_PC  := $(firstword $(foreach p,hdf5-serial hdf5,$(if $(call has,$(p)),$(p))))
HDF5_CFLAGS := $(if $(HDF5_PC),$(call pkg,--cflags,$(HDF5_PC)),$(firstword $(patsubst %/hdf5.h,-I%,\
                 $(wildcard /usr/include/hdf5/serial/hdf5.h /usr/local/include/hdf5.h /usr/include/hdf5.h))))
HDF5_LIBS := $(if $(HDF5_PC),$(call pkg,--libs,$(HDF5_PC)),$(firstword $(patsubst %/libhdf5_serial.so,-L% -lhdf5_serial,\
                 $(wildcard /usr/lib/*-linux-gnu/libhdf5_serial.so)) -lhdf5))
LIBDEFLATE ?= $(call has,libdeflate)
LZ4        ?= $(call has,liblz4)
ZSTD       ?= $(call has,libzstd)
OPENSLIDE  ?= $(and $(call has,openslide),$(call has,libtiff-4),$(call has,libjpeg),$(call has,libopenjp2))
CUDA       ?= $(if $(shell command -v $(NVCC)),1)
TIFF_JPEG  := $(and $(call has,libtiff-4),$(call has,libjpeg),$(call has,libopenjp2))
# make hands an exported CUDA=0 down as the word 0
on = $(filter-out 0,$(1))

# --- how it is built ---
B        := build$(if $(SAN),/san-$(SAN))
WARN      = -Wall -Wextra -Wshadow -Wconversion -Werror
# contracted multiply-adds would make counts depend on the compiler
BASE      = -std=c11 -D_GNU_SOURCE -I. $(WARN) -ffp-contract=off -pthread -MMD -MP \
            $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer)
DEFS      = $(if $(call on,$(LIBDEFLATE)),-DHAVE_LIBDEFLATE) \
            $(if $(call on,$(LZ4)),-DHAVE_LZ4) $(if $(call on,$(ZSTD)),-DHAVE_ZSTD) \
            $(if $(call on,$(CUDA)),-DHAVE_CUDA) $(if $(shell pkg-config --atleast-version=4.0 openslide 2>/dev/null && echo 1),-DHAVE_OPENSLIDE4)
CODEC_PC  = $(if $(call on,$(LIBDEFLATE)),libdeflate) $(if $(call on,$(LZ4)),liblz4) $(if $(call on,$(ZSTD)),libzstd)
ZLIB_LIBS = $(if $(call on,$(LIBDEFLATE)),,-lz)
LDLIBS    = $(if $(strip $(CODEC_PC)),$(call pkg,--libs,$(CODEC_PC))) $(HDF5_LIBS) $(ZLIB_LIBS) -lm

COMMON   := $(patsubst %.c,$(B)/%.o,$(wildcard common/*.c))
CONVERT  := $(patsubst %.c,$(B)/%.o,$(wildcard convert/*.c))
PROCESS  := $(patsubst %.c,$(B)/%.o,$(wildcard process/*.c))
CUDAOBJ  := $(if $(call on,$(CUDA)),$(patsubst %.cu,$(B)/%.o,$(wildcard cuda/*.cu)))
CUDA_LIB := $(if $(call on,$(CUDA)),$(firstword $(wildcard $(dir $(shell command -v $(NVCC)))../lib64 /usr/lib/x86_64-linux-gnu)))
CUDA_INC := $(if $(call on,$(CUDA)),$(firstword $(patsubst %/cuda_runtime.h,%,$(wildcard $(dir $(shell command -v $(NVCC)))../include/cuda_runtime.h)) /usr/include))
CUDA_LIBS = $(if $(CUDAOBJ),-L$(CUDA_LIB) -Wl$(comma)-rpath$(comma)$(CUDA_LIB) -lcudart -lcufft -lstdc++)
comma    := ,
NVSAN    := $(foreach s,$(subst $(comma), ,$(SAN)),-Xcompiler -fsanitize=$(s))
ifdef ARCH
GENCODE  := -arch=$(ARCH)
else
GENCODE  := $(foreach a,80 86 89 90,-gencode arch=compute_$(a),code=sm_$(a)) -gencode arch=compute_90,code=compute_90
endif

# other parts or flags than last time: everything is made again
CONFIG   := $(B)/config
$(shell mkdir -p $(B); printf '%s\n' '$(CC) $(CFLAGS) $(BASE) $(DEFS) $(GENCODE)' | cmp -s - $(CONFIG) || \
        printf '%s\n' '$(CC) $(CFLAGS) $(BASE) $(DEFS) $(GENCODE)' >$(CONFIG))

PROGRAMS := $(B)/h5spec $(if $(call on,$(OPENSLIDE)),$(B)/wsi2h5)
TESTS    := $(patsubst tests/%.c,$(B)/tests/%,$(wildcard tests/test_*.c)) \
            $(if $(TIFF_JPEG),$(B)/tests/mkslide) $(if $(call on,$(OPENSLIDE)),$(B)/tests/slide_pixels) \
            $(if $(call on,$(CUDA)),$(B)/tests/h5spec_stub)

all: $(PROGRAMS)
	@$(if $(call on,$(OPENSLIDE)),:,echo "wsi2h5 is left out: OpenSlide, libtiff, libjpeg or OpenJPEG was not found (scripts/install-deps gets it)")
	@$(if $(call on,$(CUDA)),:,echo "h5spec has no CUDA part: nvcc was not found, or CUDA=0")

h5spec: $(B)/h5spec
wsi2h5: $(B)/wsi2h5

$(B)/h5spec: $(PROCESS) $(CUDAOBJ) $(COMMON)
	$(CC) $(CFLAGS) $(BASE) $(LDFLAGS) -o $@ $^ $(CUDA_LIBS) $(LDLIBS)
$(B)/wsi2h5: $(CONVERT) $(COMMON)
	$(CC) $(CFLAGS) $(BASE) $(LDFLAGS) -o $@ $^ $(call pkg,--libs,openslide libtiff-4 libjpeg libopenjp2) $(LDLIBS)

$(B)/common/h5.o $(B)/common/store_read.o $(B)/common/store_write.o $(B)/common/result.o $(B)/common/result_merge.o: EXTRA = $(HDF5_CFLAGS)
$(B)/convert/%.o: EXTRA = $(call pkg,--cflags,openslide libtiff-4 libjpeg libopenjp2)
# the loops over pixels: let the compiler vectorise them
$(B)/process/lanes.o $(B)/common/gray.o $(B)/process/spectrum_cpu.o $(B)/process/stream.o $(B)/convert/convert.o $(B)/convert/slide_openslide.o $(B)/convert/tile.o $(B)/convert/tissue.o: EXTRA += -O3

$(B)/%.o: %.c $(CONFIG)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(BASE) $(DEFS) $(EXTRA) -c -o $@ $<
$(B)/%.o: %.cu $(CONFIG)
	@mkdir -p $(@D)
	$(NVCC) -O3 -std=c++17 -I. $(GENCODE) -Xcompiler -Wall,-Wextra $(NVSAN) -Werror all-warnings -MMD -MP -c -o $@ $<

# --- tests ---
$(B)/tests/mkslide: tests/mkslide.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(BASE) $(LDFLAGS) -o $@ $< $(call pkg,--cflags --libs,libtiff-4 libjpeg libopenjp2) -lm
$(B)/tests/slide_pixels: tests/slide_pixels.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(BASE) $(LDFLAGS) -o $@ $< $(call pkg,--cflags --libs,openslide) -lm
$(B)/tests/test_%: tests/test_%.c $(COMMON) $(filter-out $(B)/process/h5spec.o,$(PROCESS)) $(CUDAOBJ)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(BASE) $(DEFS) $(HDF5_CFLAGS) $(LDFLAGS) -o $@ $(filter %.c %.o,$^) $(CUDA_LIBS) $(LDLIBS)

# h5spec with a stub of the CUDA runtime and cuFFT instead of NVIDIA's, for machines without a GPU
$(B)/tests/stub_cuda.o: EXTRA = -isystem $(CUDA_INC)
$(B)/tests/h5spec_stub: $(PROCESS) $(CUDAOBJ) $(B)/tests/stub_cuda.o $(COMMON)
	$(CC) $(CFLAGS) $(BASE) $(LDFLAGS) -o $@ $^ -lstdc++ $(LDLIBS)

$(B)/tests/mkstore: tests/mkstore.c $(COMMON)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(BASE) $(DEFS) $(LDFLAGS) -o $@ $(filter %.c %.o,$^) $(LDLIBS)

$(B)/tests/bench_read: tests/bench_read.c $(COMMON)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(BASE) $(DEFS) $(LDFLAGS) -o $@ $(filter %.c %.o,$^) $(LDLIBS)
$(B)/tests/bench_kernels: $(B)/tests/bench_kernels.o $(patsubst %.cu,$(B)/%.o,$(wildcard tests/kernels/*.cu) cuda/fused.cu cuda/smooth.cu cuda/windows.cu)
	$(CC) -o $@ $^ $(CUDA_LIBS) -lm

$(B)/tests/bench_feed: $(B)/tests/bench_feed.o $(COMMON)
	$(CC) $(CFLAGS) $(BASE) $(LDFLAGS) -o $@ $^ $(CUDA_LIBS) $(LDLIBS)

# SMALL_RGB and SMALL_GRAY: stores of a small slide
bench-gpu: $(B)/h5spec $(B)/tests/mkstore $(B)/tests/bench_read $(B)/tests/bench_feed $(B)/tests/bench_kernels
	BUILD=$(B) tests/bench_gpu $(SMALL_RGB) $(SMALL_GRAY)

programs-for-check: $(PROGRAMS) $(TESTS)

check:
	scripts/install-deps --tests
	$(MAKE) programs-for-check
	BUILD=$(B) SAN="$(SAN)" MAKE="$(MAKE)" tests/check $(T)

bench:
	scripts/install-deps --bench
	$(MAKE) programs-for-check $(B)/tests/bench_peers
	BUILD=$(B) tests/bench

$(B)/tests/bench_peers: tests/bench_peers.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -O3 $(BASE) $(LDFLAGS) -o $@ $< $(call pkg,--cflags --libs,openslide fftw3f libtiff-4 libjpeg libopenjp2 libdeflate) -lm

bench-codecs: $(B)/tests/bench_codecs
	$(B)/tests/bench_codecs $(or $(SLIDE),$(wildcard ../shared/slides/CMU-1-Small-Region.svs))
$(B)/tests/bench_codecs: tests/bench_codecs.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -O3 $(BASE) $(LDFLAGS) -o $@ $< $(call pkg,--cflags --libs,openslide libdeflate libzstd liblz4) -lm

demo:
	scripts/install-deps
	$(MAKE) all $(B)/tests/mkslide
	BUILD=$(B) scripts/demo

install: all
	install -d $(DESTDIR)$(PREFIX)/bin
	install $(PROGRAMS) $(DESTDIR)$(PREFIX)/bin

clean:
	rm -rf build demo

help:
	@echo "make               $(notdir $(PROGRAMS)) into $(B)/"
	@echo "make demo          from nothing to a histogram; SLIDE=path takes your own slide"
	@echo "make check         every test; T='name ...' some of them; SAN=address,undefined or SAN=thread"
	@echo "make bench         speed and memory, each beside the bare library"
	@echo "make bench-gpu     the GPU backend beside its limits; SMALL_RGB=store SMALL_GRAY=store"
	@echo "make install       PREFIX=$(PREFIX) DESTDIR=$(DESTDIR)"
	@echo "make clean         removes build/ and demo/"

.PHONY: all h5spec wsi2h5 programs-for-check check bench bench-gpu bench-codecs demo install clean help
.DELETE_ON_ERROR:
-include $(shell find $(B) -name '*.d' 2>/dev/null)
