#!/bin/sh
# Array job: computes one slide, one task per group of its store. GROUPS is the number of groups, as
# End - Start + 1 in the table of h5spec lookup. With fewer TASKS, task I takes groups I, I + TASKS, ...
#
#   mkdir -p parts
#   qsub -t 1-40 scripts/sge/groups.sh parts/ store.h5 40 [TASKS [options of h5spec run]]
#   h5spec merge -o result.h5 parts/*.h5
#
# On CPUs: qsub -l gpu=0 -t 1-40 scripts/sge/groups.sh parts/ store.h5 40 40 --device cpu
# JSON lines go to h5spec-groups.oJOB.TASK, messages go to h5spec-groups.eJOB.TASK, both in the current
# folder. Existing results are kept. H5SPEC names the program if it is not in PATH.
# The task asks for one slot, because many sites count the gpu per slot; elsewhere give -pe smp 4.
#$ -N h5spec-groups
#$ -l gpu=1
#$ -r y -j n
#$ -cwd -S /bin/sh
parts=$1 store=$2 groups=$3 tasks=${4:-$3}
shift 3
[ $# -eq 0 ] || shift
echo "groups.sh: task $SGE_TASK_ID on $(hostname), $(date -u +%Y-%m-%dT%H:%M:%SZ)" >&2
trap : TERM USR1 USR2 XCPU # h5spec stops by itself, and this script waits for it
group=${SGE_TASK_ID:?this is a task of an array job: use qsub -t 1-N}
status=0
while [ "$group" -le "$groups" ]; do
    "${H5SPEC:-h5spec}" run --accept-damage --device cuda --groups "$group" -j "${NSLOTS:-1}" --json \
        --progress no -o "$parts" "$@" "$store" || status=$?
    [ $status -le 1 ] || break
    group=$((group + tasks))
done
exit $status
