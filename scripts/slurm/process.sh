#!/bin/sh
# Array job: computes results of stores with h5spec, on one GPU per task. Task I of N takes lines
# I, I + N, ... of the list.
#
#   mkdir -p results; ls stores/*.h5 >stores.txt
#   sbatch --array=1-20 scripts/slurm/process.sh results/ stores.txt [options of h5spec run]
#
# On CPUs: sbatch --gres=none ... scripts/slurm/process.sh results/ stores.txt --device cpu
# One JSON line per store goes to h5spec-JOB_TASK.json, messages go to h5spec-JOB_TASK.err, both in the
# current folder. Existing results are kept, so the same command submitted again does what remains.
# H5SPEC names the program if it is not in PATH. On small nodes: sbatch --cpus-per-task=1 ...
#SBATCH --job-name=h5spec
#SBATCH --output=h5spec-%A_%a.json
#SBATCH --error=h5spec-%A_%a.err
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=4
#SBATCH --mem-per-cpu=1G
#SBATCH --requeue
#SBATCH --open-mode=append
results=$1 list=$2
shift 2
echo "process.sh: task $SLURM_ARRAY_TASK_ID on ${SLURMD_NODENAME:-$(hostname)}, $(date -u +%Y-%m-%dT%H:%M:%SZ)" >&2
# --device cuda: a task that cannot use its GPU fails, instead of holding it while it computes on the CPU
exec ${WSI_STAGE:+"$WSI_STAGE"} "${H5SPEC:-h5spec}" run --device cuda --task auto --list "$list" -j "${SLURM_CPUS_PER_TASK:-1}" \
    --json --progress no -o "$results" "$@"
