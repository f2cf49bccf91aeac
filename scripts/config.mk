# What this machine has, and the flags that follow from it: part of the Makefile.

hash     := \#
on        = $(filter-out 0,$(1))
pkg       = $(shell pkg-config $(1) $(2) 2>/dev/null)
has       = $(shell pkg-config --exists "$(1)" 2>/dev/null && echo 1)
can       = $(shell echo '$(hash)include <$(1)>' | $(CC) $(2) -x c -E - >/dev/null 2>&1 && echo 1)
HDF5_PC  := $(firstword $(foreach p,hdf5-serial hdf5,$(if $(call has,$(p)),$(p))))
HDF5_CFLAGS := $(if $(HDF5_PC),$(call pkg,--cflags,$(HDF5_PC)),$(firstword \
                 $(patsubst %/hdf5.h,-I%,$(wildcard /usr/include/hdf5/serial/hdf5.h))))
# every later HDF5, too, offers its functions in the form that they have in 1.10
HDF5_CFLAGS += -DH5_USE_110_API
HDF5_LIBS := $(if $(HDF5_PC),$(call pkg,--libs,$(HDF5_PC)),$(firstword \
               $(patsubst %/libhdf5_serial.so,-L% -lhdf5_serial, \
                 $(wildcard /usr/lib/*-linux-gnu/libhdf5_serial.so)) -lhdf5))
SLIDE_PC  = $(if $(call on,$(OPENSLIDE)),openslide) libtiff-4 libjpeg libopenjp2 expat
LIBDEFLATE ?= $(call has,libdeflate)
LZ4        ?= $(call has,liblz4)
ZSTD       ?= $(call has,libzstd)
JPEG       ?= $(call has,libjpeg)
J2K        ?= $(call has,libopenjp2)
OPENSLIDE  ?= $(call has,openslide)
PNG        ?= $(call has,libpng)
TIFF       ?= $(call has,libtiff-4)
JANSSON    ?= $(call has,jansson)
# once: makes variables simple, which would else ask pkg-config or the compiler again for every object
once      = $(foreach v,$(1),$(if $(filter file,$(origin $v)),$(eval $v := $($v))))
$(call once,LIBDEFLATE LZ4 ZSTD JPEG J2K OPENSLIDE PNG TIFF JANSSON)
# nvcc of PATH, or in the toolkit's usual place. It finds its parts beside itself, so not through a link to it
NVCC_AT   := $(or $(shell command -v $(NVCC)),$(wildcard /usr/local/cuda/bin/nvcc))
override NVCC := $(or $(filter %/nvcc,$(realpath $(NVCC_AT))),$(NVCC_AT),$(NVCC))
CUDA       ?= $(if $(NVCC_AT),1)
CUFILE     ?= $(if $(call on,$(CUDA)),$(call can,cufile.h,$(CUDA_CFLAGS)))
MAP_TIFF    = $(and $(call on,$(PNG)),$(call on,$(TIFF)))
TIFF_JPEG  := $(if $(call on,$(JPEG)),$(if $(call on,$(J2K)),$(call has,libtiff-4 libjpeg libopenjp2 expat)))

# the first thing that the build needs and this machine lacks
GET       = run scripts/install-deps, or set PKG_CONFIG_PATH if it is installed elsewhere
GET_CXX   = run scripts/install-deps, or set CUDA=0
LACKS     = $(if $(call can,stdint.h),$(if $(call can,hdf5.h,$(HDF5_CFLAGS)), \
              $(if $(call on,$(LIBDEFLATE))$(call can,zlib.h),,zlib is missing: $(GET)) \
              $(if $(filter wheel,$(MAKECMDGOALS)),$(shell scripts/make-wheel --lacks)) \
              $(if $(call on,$(CUDA)),$(if $(NVCC_SAYS),, \
                nvcc does not work ($(NVCC_FAILS)); it needs g++: $(GET_CXX))), \
              HDF5 is missing: $(GET)),no usable C compiler: install gcc and libc6-dev, or set CC)

# what a build without a part lacks, unless the user left it out
unless    = $(if $(filter command environment,$(origin $(1)))$($(1)),:,echo '$(2)')
HINT      = (scripts/install-deps)

# --- how it is built ---
comma    := ,
WARN      = -Wall -Wextra -Wshadow -Wconversion $(if $(call on,$(WERROR)),-Werror)
# contracted multiply-adds would make counts depend on the compiler
BASE      = -std=c11 -D_GNU_SOURCE -I. -I$(B) $(WARN) -ffp-contract=off -pthread -MMD -MP \
            $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer)
DEFS      = $(if $(call on,$(LIBDEFLATE)),-DHAVE_LIBDEFLATE) $(if $(call on,$(LZ4)),-DHAVE_LZ4) \
            $(if $(call on,$(ZSTD)),-DHAVE_ZSTD) $(if $(call on,$(JPEG)),-DHAVE_JPEG) \
            $(if $(call on,$(J2K)),-DHAVE_J2K) $(if $(call on,$(CUDA)),-DHAVE_CUDA) \
            $(if $(call on,$(CUFILE)),-DHAVE_CUFILE) \
            $(if $(call on,$(PNG)),-DHAVE_PNG) $(if $(MAP_TIFF),-DHAVE_TIFF) \
            $(if $(call on,$(JANSSON)),-DHAVE_JANSSON) \
            $(if $(call on,$(OPENSLIDE)),-DHAVE_OPENSLIDE $(if $(call has,openslide >= 4),-DHAVE_OPENSLIDE4))
CODEC_PC  = $(if $(call on,$(LIBDEFLATE)),libdeflate) $(if $(call on,$(LZ4)),liblz4) \
            $(if $(call on,$(ZSTD)),libzstd) $(if $(call on,$(JPEG)),libjpeg) $(if $(call on,$(J2K)),libopenjp2) \
            $(if $(call on,$(JANSSON)),jansson)
# pictures: of h5spec, and masks that wsi2h5 reads
PICTURE_PC = $(if $(call on,$(PNG)),libpng) $(if $(MAP_TIFF),libtiff-4)
PICTURES  = $(if $(strip $(PICTURE_PC)),-Wl$(comma)--as-needed $(call pkg,--libs,$(PICTURE_PC)) \
              -Wl$(comma)--no-as-needed)
# glibc before 2.34 has dlsym() in a library of its own
LDLIBS    = $(PICTURES) $(if $(strip $(CODEC_PC)),$(call pkg,--libs,$(CODEC_PC))) $(HDF5_LIBS) \
            $(if $(call on,$(LIBDEFLATE)),,-lz) -lm -ldl
# nvcc itself says where its headers and libraries are, wherever it comes from; a distribution's are where all are
NVCC_SAYS := $(if $(call on,$(CUDA)),$(subst ",,$(shell $(NVCC) --dryrun -x cu -c /dev/null 2>&1 | \
               sed -n 's/^.*_SPACE_=.*/works/p; s/^.*\(INCLUDES\|LIBRARIES\)=//p')))
NVCC_FAILS = $(or $(shell $(NVCC) --dryrun -x cu -c /dev/null 2>&1 | tail -n 1),it prints nothing)
cuda_has   = $(firstword $(foreach d,$(patsubst $(1)%,%,$(filter $(1)%,$(NVCC_SAYS))) $(2), \
               $(if $(wildcard $d/$(3)),$(abspath $d))))
CUDA_LIB  := $(call cuda_has,-L,$(wildcard /usr/lib/*-linux-gnu),libcudart_static.a)
CUDA_INC  := $(call cuda_has,-I,,cuda_runtime.h)
CUDA_CFLAGS := $(CUDA_INC:%=-isystem %)
# cuFFT is looked for there when it is first needed
# a wheel carries as few libraries as it can
LIBSTDCXX = $(if $(filter wheel,$(MAKECMDGOALS)),$(filter /%,$(shell $(CC) -print-file-name=libstdc++.a)))
CUDA_LIBS = $(if $(CUDAOBJ),-L$(CUDA_LIB) -Wl$(comma)-rpath$(comma)$(CUDA_LIB) \
              -lcudart_static $(if $(call on,$(CUFILE)),-lcufile) \
              $(if $(LIBSTDCXX),$(LIBSTDCXX) -static-libgcc,-lstdc++) -ldl -lrt)
# Kernels: of ARCH (sm_90, say; several words; all), else for the GPUs here, else all that this toolkit knows
override ARCH := $(filter-out native,$(ARCH))
NVCC_ARCH := $(if $(call on,$(CUDA)),$(sort $(shell $(NVCC) --list-gpu-code 2>/dev/null)))
ALL_ARCH  := $(filter $(NVCC_ARCH),sm_80 sm_86 sm_89 sm_90 sm_100 sm_120) compute_90
GPUS      := $(if $(call on,$(CUDA))$(ARCH),$(if $(ARCH),,$(addprefix sm_,$(sort $(subst .,,$(shell \
               nvidia-smi --query-gpu=compute_cap --format=csv$(comma)noheader 2>/dev/null | grep '^[0-9.]*$$'))))))
HERE_ARCH := $(filter $(NVCC_ARCH),$(GPUS)) $(if $(filter-out $(NVCC_ARCH),$(GPUS)),compute_90)
ARCHS     := $(if $(call on,$(CUDA)),$(strip $(or $(ARCH:all=$(ALL_ARCH)),$(strip $(HERE_ARCH)),$(ALL_ARCH))))
GENCODE   := $(foreach a,$(ARCHS),-gencode arch=compute_$(lastword $(subst _, ,$a))$(comma)code=$a)
NVFLAGS   = -O3 -std=c++17 -I. $(GENCODE) -Xcompiler -Wall,-Wextra $(if $(call on,$(WERROR)),-Werror all-warnings) \
            $(foreach s,$(subst $(comma), ,$(SAN)),-Xcompiler -fsanitize=$(s)) -MMD -MP
SLIDE_CFLAGS   = $(call pkg,--cflags,$(SLIDE_PC))
PICTURE_CFLAGS = $(call pkg,--cflags,$(PICTURE_PC))
$(call once,CUFILE DEFS LDLIBS SLIDE_CFLAGS PICTURE_CFLAGS)
