#!/bin/sh
# Array job: computes one slide, one task per group of its store. GROUPS is the number of groups, as
# End - Start + 1 in the table of h5spec lookup. With fewer TASKS, task I takes groups I, I + TASKS, ...
#
#   mkdir -p parts
#   sbatch --array=1-40 scripts/slurm/groups.sh parts/ store.h5 40 [TASKS [options of h5spec run]]
#   h5spec merge -o result.h5 parts/*.h5
#
# On CPUs: sbatch --gres=none --array=1-40 scripts/slurm/groups.sh parts/ store.h5 40 40 --device cpu
# JSON lines go to h5spec-groups-JOB_TASK.json, messages go to h5spec-groups-JOB_TASK.err, both in the
# current folder. Existing results are kept. H5SPEC names the program if it is not in PATH.
#SBATCH --job-name=h5spec-groups
#SBATCH --output=h5spec-groups-%A_%a.json
#SBATCH --error=h5spec-groups-%A_%a.err
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=4
#SBATCH --mem-per-cpu=1G
#SBATCH --requeue
#SBATCH --open-mode=append
parts=$1 store=$2 groups=$3 tasks=${4:-$3}
shift 3
[ $# -eq 0 ] || shift
echo "groups.sh: task $SLURM_ARRAY_TASK_ID on ${SLURMD_NODENAME:-$(hostname)}, $(date -u +%Y-%m-%dT%H:%M:%SZ)" >&2
trap : TERM USR1 USR2 XCPU # h5spec stops by itself, and this script waits for it
group=${SLURM_ARRAY_TASK_ID:?this is a task of an array job: use sbatch --array=1-N}
status=0
while [ "$group" -le "$groups" ]; do
    "${H5SPEC:-h5spec}" run --accept-damage --device cuda --groups "$group" -j "${SLURM_CPUS_PER_TASK:-1}" --json \
        --progress no -o "$parts" "$@" "$store" || status=$?
    [ $status -le 1 ] || break
    group=$((group + tasks))
done
exit $status
