#!/bin/sh
# Array job: slides to stores with wsi2h5. Each task does its share of a list, task 1 of N lines 1, N + 1 ...
#
#   qsub -t 1-100 scripts/sge/convert.sh STORES/ SLIDES.txt [options of wsi2h5]
#
# Submitted again, as a whole, it does what is missing. WSI2H5 names the program where it is not in PATH.
#$ -N wsi2h5
#$ -pe smp 4
#$ -r y
#$ -cwd -S /bin/sh
stores=$1 list=$2
shift 2
# exec: the signals of the scheduler reach the program itself, which stops with nothing half-done left
exec "${WSI2H5:-wsi2h5}" --task auto --list "$list" -j "${NSLOTS:-1}" --json --progress no \
    -o "$stores" "$@"
