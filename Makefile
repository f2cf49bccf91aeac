# wsi2h5 and h5spec. `make help` lists the targets.
#
# pkg-config finds the libraries. Optional ones that are missing are left out:
#   h5spec   needs HDF5, and libdeflate or zlib; uses LZ4, Zstandard, libjpeg, libpng, libtiff, Jansson, CUDA and cuFile
#   wsi2h5   needs the same, and libtiff, libjpeg, OpenJPEG and Expat; without OpenSlide it reads fewer formats
# Leave parts out with CUDA=0 LIBDEFLATE=0 LZ4=0 ZSTD=0 JPEG=0 J2K=0 OPENSLIDE=0 PNG=0 TIFF=0
# JANSSON=0 CUFILE=0.
# V=1 shows the commands, WERROR=1 turns warnings into errors, SAN=address,undefined or
# SAN=thread builds with sanitizers, in a folder of its own.

CC       = cc
NVCC     = nvcc
CFLAGS   = -O2 -g
PREFIX   = /usr/local

# as many files and test programs at a time as there are processors, unless -j says otherwise. Several goals
# may need their order (make clean all).
JOBS    := $(or $(JOBS),$(shell nproc 2>/dev/null),2)
ifeq ($(MAKELEVEL)$(word 2,$(MAKECMDGOALS))$(filter -j%,$(shell echo "$$MAKEFLAGS")),0)
MAKEFLAGS += -j$(JOBS)
endif

# packages have kernels for all GPUs
ifneq ($(filter wheel,$(MAKECMDGOALS)),)
export ARCH ?= all
endif
B        := build$(if $(SAN),/san-$(SAN))
include scripts/config.mk

# --- the programs ---
objects   = $(patsubst %.cu,$(B)/%.o,$(patsubst %.c,$(B)/%.o,$(wildcard $(1))))
COMMON   := $(filter-out $(B)/common/codec/h5jpeg.o $(B)/common/codec/h5j2k.o,$(call objects,common/*/*.c))
# without OpenSlide, wsi2h5 reads fewer formats: the table in convert/readers/slide.c
NOT_READ  = $(if $(call on,$(OPENSLIDE)),frame/no_openslide,frame/slide_metadata slide_openslide)
CONVERT  := $(filter-out $(call objects,$(NOT_READ:%=convert/readers/%.c)), \
              $(call objects,convert/*.c convert/*/*.c convert/*/*/*.c))
# without libpng, h5spec draws no maps and no reports; without libtiff it writes no OME-TIFF
NO_PNG    = $(if $(call on,$(PNG)),,$(patsubst %,process/%*.c,draw/png_ map/ report/ report/*/ run/live))
PROCESS  := $(filter-out $(call objects,$(NO_PNG) process/map/map_tiff$(if $(MAP_TIFF),_none).c), \
              $(call objects,process/*.c process/*/*.c process/*/*/*.c))
CUDAOBJ  := $(if $(call on,$(CUDA)),$(call objects,$(foreach e,c cu,cuda/*.$e cuda/*/*.$e)))
PROGRAMS := $(B)/h5spec $(if $(TIFF_JPEG),$(B)/wsi2h5)
PLUGIN   := $(if $(call on,$(JPEG)),$(B)/libh5jpeg.so) $(if $(call on,$(J2K)),$(B)/libh5j2k.so)

# the configuration, the commit and the list of sources, as files that change when these do
BUILDS   := $(filter-out help clean uninstall check check-installed check-all demo bench deb check-releases \
              lint lint-%, $(or $(MAKECMDGOALS),all))
state    := $(if $(BUILDS),$(shell scripts/build-state $(B) '$(CC) $(CFLAGS) $(BASE) $(DEFS) $(GENCODE)' '$(ARCHS)'))

show      = $(if $(call on,$(V)),,@echo '$(1)';)mkdir -p $(@D) &&
compile   = $(call show,CC $<)$(CC) $(CFLAGS) $(BASE) $(DEFS) $(EXTRA)
# test_h5jpeg.c includes h5jpeg.c
link      = $(call show,LD $@)$(CC) $(CFLAGS) $(BASE) $(DEFS) $(EXTRA) $(LDFLAGS) -o $@ \
              $(filter-out %/h5jpeg.c,$(filter %.c %.o,$^))

all: $(PROGRAMS) $(PLUGIN)
	@$(if $(TIFF_JPEG),:,echo 'wsi2h5 is not built: libtiff, libjpeg, OpenJPEG or Expat is missing $(HINT)')
	@$(call unless,OPENSLIDE,wsi2h5 reads fewer formats: OpenSlide is missing $(HINT))
	@$(call unless,PNG,h5spec draws no maps and no reports: libpng is missing $(HINT))
	@$(call unless,JANSSON,no GeoJSON (--roi, --tissue-mask): Jansson is missing $(HINT))
	@$(call unless,CUDA,h5spec is built for CPUs only (no nvcc))

h5spec: $(B)/h5spec
wsi2h5: $(B)/wsi2h5

$(B)/h5spec: $(PROCESS) $(CUDAOBJ) $(COMMON)
	$(link) $(CUDA_LIBS) $(LDLIBS)
$(B)/wsi2h5: $(CONVERT) $(COMMON)
	$(link) $(call pkg,--libs,$(SLIDE_PC)) $(LDLIBS)

# HDF5's plug-ins: the library that loads them brings HDF5
$(B)/libh5jpeg.so: common/codec/h5jpeg.c common/codec/jpeg_decoder.c
$(B)/libh5jpeg.so: PLUGIN_PC = libjpeg
$(B)/libh5j2k.so: common/codec/h5j2k.c common/codec/j2k.c common/codec/j2k_bounds.c
$(B)/libh5j2k.so: PLUGIN_PC = libopenjp2
$(B)/libh5%.so: common/base/err.c common/base/text.c $(B)/config | needs
	$(call show,LD $@)$(CC) $(CFLAGS) $(BASE) $(DEFS) $(HDF5_CFLAGS) $(call pkg,--cflags,$(PLUGIN_PC)) $(LDFLAGS) \
	  -fPIC -fvisibility=hidden -shared -MF $@.d -o $@ $(filter %.c,$^) $(call pkg,--libs,$(PLUGIN_PC))

# style and scripts of pages: their bytes, and the SHA-256 by which a page allows them
$(B)/page_files.h: process/draw/page.css process/draw/page.js process/run/live.js
	$(call show,GEN $@)for f in $^; do n=$$(basename $$f | tr . _); \
	  echo "static const unsigned char $$n[] = {"; od -An -v -tu1 $$f | sed 's/[0-9][0-9]*/&,/g'; \
	  echo "}; static const char $${n}_sha256[] = \"$$(sha256sum <$$f | cut -c1-64)\";"; done >$@
$(B)/process/draw/html.o: $(B)/page_files.h

$(COMMON): EXTRA = $(HDF5_CFLAGS)
$(call objects,cuda/*.c cuda/*/*.c): EXTRA = $(CUDA_CFLAGS)
$(CONVERT): EXTRA = $(SLIDE_CFLAGS)
$(call objects,process/draw/png_file.c $(if $(MAP_TIFF),process/map/map_tiff.c)): \
  EXTRA = $(PICTURE_CFLAGS)
$(B)/common/codec/j2k.o: EXTRA += $(call pkg,--cflags,libopenjp2)
$(call objects,convert/tissue/tissue_mask.c $(patsubst %,convert/readers/picture/%.c,picture_png png_input)): \
  EXTRA += $(if $(call on,$(PNG)),$(call pkg,--cflags,libpng))
# loops over pixels, for the compiler to vectorise
$(call objects,$(patsubst %,%.c,$(addprefix process/,spectrum/lanes spectrum/spectrum_cpu spectrum/cpu_unit \
  engine/stream) common/store/gray common/store/chunks common/codec/j2k convert/convert \
  $(addprefix convert/,readers/slide_openslide readers/frame/slide_metadata tissue/tissue))): EXTRA += -O3

$(B)/%.o: %.c $(B)/config | needs
	$(compile) -c -o $@ $<
$(B)/%.o: %.cu $(B)/config | needs $(B)/kernels
	$(call show,NVCC $<)$(NVCC) $(NVFLAGS) -c -o $@ $<
$(B)/kernels: $(B)/config
	@echo 'compiling CUDA kernels for $(ARCHS) takes minutes$(if $(ARCH)$(GPUS),,; nvidia-smi shows no GPU here:)' \
	  '$(if $(ARCH)$(GPUS),,ARCH=sm_90 builds for one kind of GPU and CUDA=0 for none)'
	@touch $@
needs:
	$(if $(strip $(LACKS)),$(error $(strip $(LACKS))))@:

include tests/rules.mk

# --- tests and what else is done with the sources ---
# what tries the CUDA backend without a GPU
stub: $(B)/tests/h5spec_stub $(B)/tests/mkslide $(B)/wsi2h5 $(PLUGIN)

fuzz-targets: $(FUZZ)
fuzz:
	@$(MAKE) --no-print-directory programs-for-check
	@$(MAKE) --no-print-directory $(FUZZ_BUILD) fuzz-targets
	@BUILD=$(B) tests/fuzz/run --seconds $(or $(SECONDS),60) $(T)

# preloaded libraries and sanitizers do not go together; the fuzz targets have no threads
programs-for-check: $(PROGRAMS) $(PLUGIN) $(TESTS) $(if $(SAN),$(B)/tests/torture_h5sum,$(TORTURE)) \
                    $(if $(filter thread,$(SAN)),,$(FUZZ))

torture:
	@$(MAKE) --no-print-directory programs-for-check
	@BUILD=$(B) SAN="$(SAN)" $$(tests/python) tests/torture --scale $(or $(SCALE),1) $(T)

# TIER: check, ci, all; see tests/README.md
check:
	+@MAKE='$(MAKE)' BUILD='$(B)' SAN='$(SAN)' TIER='$(TIER)' JOBS='$(JOBS)' scripts/check $(T)

# everything, before a release: each step in full
check-all:
	@$(MAKE) --no-print-directory check TIER=all
	@$(MAKE) --no-print-directory check TIER=all SAN=address,undefined ARCH=sm_90
	@$(MAKE) --no-print-directory check TIER=all SAN=thread ARCH=sm_90
	@$(MAKE) --no-print-directory torture
	@$(MAKE) --no-print-directory fuzz
	@$(MAKE) --no-print-directory check-releases
	@tests/arm64

# packages and the tests in other releases of Debian, as root
check-releases:
	@$(MAKE) --no-print-directory programs-for-check wheel
	@BUILD=$(B) $$(tests/python) tests/releases $(RELEASES)

# the options in the manual pages, from --help
man: $(PROGRAMS)
	@for p in $(PROGRAMS); do scripts/man-options $$p $$(ls */$${p##*/}.1); done

# what CI also runs; no output is a good sign
lint: lint-shell lint-c lint-gcc lint-man lint-format
lint-shell:
	shellcheck -e SC2034 .ci/run $(addprefix tests/,arm64 check python bench bench_gpu) \
	  $(addprefix scripts/,check demo install-deps build-state make-deb wheel-libraries) \
	  $(wildcard scripts/*/*.sh scripts/completion/*.bash)
lint-c:
	cppcheck -q --std=c11 --enable=warning,performance,portability --inline-suppr --error-exitcode=1 -I. \
	  -D_GNU_SOURCE $(addprefix -DHAVE_,LIBDEFLATE LZ4 ZSTD JPEG J2K PNG TIFF JANSSON CUDA) common convert process cuda
# gcc's analyzer, without those of its warnings that are false alarms here
lint-gcc:
	@$(MAKE) -s --no-print-directory CC=gcc CUDA=0 SAN= B=build/analyzer WERROR=1 CFLAGS='-O1 -g -fanalyzer \
	  $(patsubst %,-Wno-analyzer-%,malloc-leak null-dereference null-argument use-of-uninitialized-value)' all
lint-man:
	@for f in $(MAN); do w=$$(groff -man -Tutf8 -ww -z $$f 2>&1; ! command -v mandoc >/dev/null || mandoc -T lint $$f); \
	  [ -z "$$w" ] || { echo "$$w"; exit 1; }; done
# other versions format differently
SOURCES_IN_FORM = $(shell find common convert process cuda tests -name '*.[ch]' -o -name '*.cu*')
lint-format:
	@clang-format-14 --dry-run -Werror $(SOURCES_IN_FORM)

format:
	clang-format-14 -i $(SOURCES_IN_FORM)

bench:
	@scripts/install-deps --bench
	@$(MAKE) --no-print-directory programs-for-check $(B)/tests/bench_peers
	BUILD=$(B) tests/bench

# SMALL_RGB and SMALL_GRAY: stores of a small slide; JPEG_STORES: some of codec jpeg; STREAMS: files of
# tests/jpeg_streams
NVJPEG   ?= $(call can,nvjpeg.h,$(CUDA_CFLAGS))
bench-gpu: $(B)/h5spec $(patsubst %,$(B)/tests/%,mkstore bench_read bench_feed bench_kernels bench_kernels_small \
             jpeg_device $(if $(call on,$(NVJPEG)),bench_nvjpeg))
	BUILD=$(B) JPEG="$(JPEG_STORES)" STREAMS="$(STREAMS)" tests/bench_gpu $(SMALL_RGB) $(SMALL_GRAY)

# scripts/demo and scripts/check install what is missing, then build
demo:
	+@MAKE='$(MAKE)' BUILD='$(B)' scripts/demo
programs-for-demo: $(B)/wsi2h5 $(B)/h5spec $(PLUGIN) $(B)/tests/mkslide

# --- installation ---
DEST      = $(DESTDIR)$(PREFIX)
# where HDF5 looks for plug-ins, below PREFIX; packages of a distribution set it to the folder of its HDF5
PLUGINDIR = lib/wsi2h5/plugin
# HDF5's own folders for plug-ins, which lie outside PREFIX and are written only where PREFIX is the system's: that of
# the library here, as it says, where h5dump looks, and that of HDF5 as its authors build it: h5py of PyPI, HDFView.
# HDF5_PLUGINS= leaves them alone
SYSTEM    = $(if $(filter 1,$(words $(PREFIX))),$(filter /usr /usr/local,$(PREFIX:%/=%)))
HDF5_PLUGINS ?= $(if $(SYSTEM),$(shell env -u HDF5_PLUGIN_PATH \
                 $(firstword $(wildcard $(B)/wsi2h5 $(DEST)/bin/wsi2h5) false) --version | \
                 sed -n 's/^HDF5 plug-ins: //p') /usr/local/hdf5/lib/plugin)
MAN       = $(wildcard convert/*.1 process/*.1 scripts/man/*.1)
DOCS      = README.md CHANGELOG.md CONTRIBUTING.md CITATION.cff LICENSE \
            $(foreach d,common convert cuda process scripts tests,$(wildcard $d/*.md $d/*.svg $d/*.png)) \
            $(wildcard scripts/gallery/*)
# what users run; what builds or packages the project stays in the source tree
SCRIPTS   = $(filter-out $(patsubst %,scripts/%,%.md config.mk build_backend.py check demo install-deps build-state \
              man-options make-deb make-wheel wheel-libraries completion/% man/% debian/% gallery/%) %.pyc, \
              $(shell find -L scripts -type f))
# TARGET=SOURCE of every file below PREFIX
FILES     = $(foreach p,h5spec $(if $(TIFF_JPEG),wsi2h5),bin/$(p)=$(B)/$(p)) \
            $(foreach p,$(PLUGIN),$(PLUGINDIR)/$(notdir $(p))=$(p)) \
            $(foreach f,$(MAN),share/man/man1/$(notdir $(f))=$(f)) \
            $(foreach f,$(DOCS),share/doc/wsi2h5/$(f)=$(f)) \
            $(foreach f,$(SCRIPTS),share/wsi2h5/$(f:scripts/%=%)=$(f)) \
            $(foreach f,page.css page.js,share/wsi2h5/wsi_answers/$(f)=process/draw/$(f)) \
            $(foreach p,h5spec wsi2h5,share/bash-completion/completions/$(p)=scripts/completion/tools.bash) \
            share/zsh/site-functions/_wsi2h5=scripts/completion/_wsi2h5
# NAME=SCRIPT of every command wsi-NAME
LINKS     = corpus=corpus plan=plan selftest=selftest store=wsi-store

install: all
	@set -e; for f in $(FILES); do \
	  mode=644; [ ! -x "$${f#*=}" ] || mode=755; install -D -m $$mode "$${f#*=}" "$(DEST)/$${f%%=*}"; done
	@for l in $(LINKS); do ln -sf ../share/wsi2h5/$${l#*=} "$(DEST)/bin/wsi-$${l%%=*}"; done
	@not=$(if $(HDF5_PLUGINS),,' the plug-in folder of HDF5'); for to in $(if $(PLUGIN),$(HDF5_PLUGINS)); do \
	    if mkdir -p "$(DESTDIR)$$to" 2>/dev/null && install -m 755 $(PLUGIN) "$(DESTDIR)$$to" 2>/dev/null; then \
	    echo "the HDF5 plug-ins are in $(DESTDIR)$$to"; else not="$$not $$to"; fi; done; [ -z "$$not" ] || \
	  echo "not written:$$not; h5spec info STORE prints the command with which other programs show kept tiles"
	@echo "installed in $(DEST)"

uninstall:
	@for to in $(HDF5_PLUGINS); do for p in $(notdir $(PLUGIN)); do \
	  ! cmp -s "$(DEST)/$(PLUGINDIR)/$$p" "$(DESTDIR)$$to/$$p" || rm -f "$(DESTDIR)$$to/$$p"; done; \
	  (cd "$(DESTDIR)/" && rmdir -p "$${to#/}" 2>/dev/null) || :; done
	@cd "$(DEST)" && rm -f $(foreach f,$(FILES),$(firstword $(subst =, ,$(f)))) bin/wsi2h5 \
	  $(foreach l,$(LINKS),bin/wsi-$(firstword $(subst =, ,$(l))))
	@cd "$(DEST)" && find share/wsi2h5 -name '*.pyc' -delete 2>/dev/null; \
	  find share/wsi2h5 share/doc/wsi2h5 lib/wsi2h5 -depth -type d -exec rmdir {} + 2>/dev/null || :
	@$(if $(SYSTEM),:,cd "$(DEST)" && for d in $(sort $(dir $(foreach f,$(FILES),$(firstword $(subst =, ,$(f)))))); do \
	  while [ "$$d" != . ]; do rmdir "$$d" 2>/dev/null; d=$$(dirname "$$d"); done; done; \
	  cd .. && rmdir "$(DEST)" 2>/dev/null || :)
	@echo "removed from $(DEST)"

# what is installed in PREFIX, without any package of the tests
check-installed:
	@"$(DEST)/bin/wsi-selftest" --build "$(DEST)/bin"

# the sources as an archive, which builds without git; the same bytes on every machine
dist:
	@python3 scripts/build_backend.py $(B)/dist
# packages for this release of Debian or Ubuntu
deb:
	@scripts/make-deb
# for pip: the programs with all libraries but the C library, and the packages wsi_store and wsi_answers
wheel: all
	@rm -rf $(B)/wheel
	@$(MAKE) --no-print-directory PREFIX= HDF5_PLUGINS= DESTDIR=$(abspath $(B))/wheel/tree install >/dev/null
	@scripts/make-wheel $(B)/wheel

clean:
	rm -rf build demo

help:
	@echo 'make               h5spec and wsi2h5 into $(B)/'
	@echo 'make demo          from made slides to a page about them; SLIDE=FILE adds your own slide'
	@echo 'make check         the tests, in minutes; T="NAME..." runs some; TIER=ci, TIER=all: more;' \
	  'SAN=address,undefined or SAN=thread'
	@echo 'make check-all     all tests in all builds, sweeps, fuzz targets, other releases: hours; needs root,' \
	  'clang and debootstrap'
	@echo 'make check-releases  packages and tests in other releases of Debian; RELEASES="trixie bullseye"; needs' \
	  'root, debootstrap'
	@echo 'make torture       sweeps over kills, failing calls, damage and limits; T="NAME..." SCALE=0.01'
	@echo 'make stub          the CUDA backend over a stub of CUDA, with what makes stores for it'
	@echo 'make fuzz          random inputs for every reader; T="slide store" SECONDS=60 each; needs clang'
	@echo 'make man           the options in the manual pages, from --help'
	@echo 'make lint          shellcheck, cppcheck, the analyzer of gcc, groff and clang-format 14 over the sources'
	@echo 'make format        lays out the sources as lint wants them; needs clang-format 14'
	@echo 'make bench         speed and memory, beside the bare libraries'
	@echo 'make bench-gpu     the GPU backend beside its limits; SMALL_RGB=STORE SMALL_GRAY=STORE JPEG_STORES=STORES'
	@echo 'make install       programs, scripts, manual pages, completions: PREFIX=$(PREFIX) DESTDIR=$(DESTDIR)'
	@echo 'make uninstall     removes what make install put there'
	@echo 'make check-installed  tests what is installed in PREFIX: a made slide through both programs'
	@echo 'make dist          the sources as an archive, the same bytes on every machine, into $(B)/dist'
	@echo 'make deb           Debian packages into build/deb, for the release of this machine'
	@echo 'make wheel         programs, their libraries and wsi_store for pip, into $(B)/wheel'
	@echo 'make clean         removes build/ and demo/'
	@echo 'Variables: JOBS=N or -jN (files and tests at the same time: $(JOBS)), CC CFLAGS NVCC ARCH V=1 WERROR=1,' \
	  'and CUDA=0 LIBDEFLATE=0 LZ4=0 ZSTD=0 JPEG=0 J2K=0 OPENSLIDE=0 PNG=0 TIFF=0 JANSSON=0 CUFILE=0'

.PHONY: all h5spec wsi2h5 needs programs-for-check check check-all check-releases man lint lint-shell lint-c \
        lint-gcc lint-man lint-format format torture stub fuzz fuzz-targets bench bench-gpu demo programs-for-demo \
        install uninstall check-installed dist deb wheel clean help
.DELETE_ON_ERROR:
-include $(shell find $(B) -name '*.d' -type f 2>/dev/null)
