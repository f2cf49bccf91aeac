#!/bin/sh
# Array job: stores to results with h5spec, on a GPU. Each task does its share of a list, as convert.sh does.
#
#   ls STORES/*.h5 >stores.txt
#   sbatch --array=1-20 scripts/slurm/process.sh RESULTS/ stores.txt [options of h5spec run]
#
# Without GPUs: sbatch --gres=none ... H5SPEC names the program where it is not in PATH.
#SBATCH --job-name=h5spec
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=4
#SBATCH --mem-per-cpu=1G
#SBATCH --requeue
#SBATCH --open-mode=append
results=$1 list=$2
shift 2
exec "${H5SPEC:-h5spec}" run --task auto --list "$list" -j "${SLURM_CPUS_PER_TASK:-1}" --json --progress no \
    -o "$results" "$@"
