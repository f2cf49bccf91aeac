#!/bin/sh
# Array job: stores to results with h5spec, on a GPU. Each task does its share of a list, as convert.sh does.
#
#   ls STORES/*.h5 >stores.txt
#   qsub -t 1-20 scripts/sge/process.sh RESULTS/ stores.txt [options of h5spec run]
#
# Without GPUs: qsub -l gpu=0 ... H5SPEC names the program where it is not in PATH.
# One slot: where the gpu is counted for each slot, -pe smp 4 would ask for four. Elsewhere give -pe smp 4.
#$ -N h5spec
#$ -l gpu=1
#$ -r y
#$ -cwd -S /bin/sh
results=$1 list=$2
shift 2
exec "${H5SPEC:-h5spec}" run --task auto --list "$list" -j "${NSLOTS:-1}" --json --progress no \
    -o "$results" "$@"
