#!/bin/sh
# Array job: converts slides to stores with wsi2h5. Task I of N takes lines I, I + N, ... of the list.
#
#   mkdir -p stores
#   sbatch --array=1-100 scripts/slurm/convert.sh stores/ slides.txt [options of wsi2h5]
#
# One JSON line per slide goes to wsi2h5-JOB_TASK.json, messages go to wsi2h5-JOB_TASK.err, both in the
# current folder. Existing stores are kept, so the same command submitted again does what remains.
# WSI2H5 names the program if it is not in PATH. On small nodes: sbatch --cpus-per-task=1 ...
#SBATCH --job-name=wsi2h5
#SBATCH --output=wsi2h5-%A_%a.json
#SBATCH --error=wsi2h5-%A_%a.err
#SBATCH --cpus-per-task=4
#SBATCH --mem-per-cpu=1G
#SBATCH --requeue
#SBATCH --open-mode=append
stores=$1 list=$2
shift 2
echo "convert.sh: task $SLURM_ARRAY_TASK_ID on ${SLURMD_NODENAME:-$(hostname)}, $(date -u +%Y-%m-%dT%H:%M:%SZ)" >&2
# exec: the scheduler's signals reach the program itself, which then stops and removes unfinished files
exec ${WSI_STAGE:+"$WSI_STAGE"} "${WSI2H5:-wsi2h5}" --task auto --list "$list" -j "${SLURM_CPUS_PER_TASK:-1}" --json \
    --progress no -o "$stores" "$@"
