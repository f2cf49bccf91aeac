#!/bin/sh
# Array job: one slide, a task a group of its store. GROUPS is their number (End - Start + 1 in the table of
# h5spec lookup); with fewer TASKS each does groups I, I + TASKS, ...
#
#   sbatch --array=1-40 scripts/slurm/groups.sh PARTS/ STORE.h5 40 [TASKS [options of h5spec run]]
#   h5spec merge -o RESULT.h5 PARTS/*.h5
#
# A group whose result is there already is left alone.
#SBATCH --job-name=h5spec-groups
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=4
#SBATCH --mem-per-cpu=1G
#SBATCH --requeue
#SBATCH --open-mode=append
parts=$1 store=$2 groups=$3 tasks=${4:-$3}
shift 3
[ $# -eq 0 ] || shift
trap : TERM USR1 USR2 XCPU # h5spec stops by itself; this waits for it
group=${SLURM_ARRAY_TASK_ID:?this is a task of an array: sbatch --array=1-N}
status=0
while [ "$group" -le "$groups" ]; do
    "${H5SPEC:-h5spec}" run --groups "$group" -j "${SLURM_CPUS_PER_TASK:-1}" --json --progress no \
        -o "$parts" "$@" "$store" || status=$?
    [ $status -le 1 ] || break
    group=$((group + tasks))
done
exit $status
