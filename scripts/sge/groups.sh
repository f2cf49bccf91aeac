#!/bin/sh
# Array job: one slide, a task a group of its store. GROUPS is their number (End - Start + 1 in the table of
# h5spec lookup); with fewer TASKS each does groups I, I + TASKS, ...
#
#   qsub -t 1-40 scripts/sge/groups.sh PARTS/ STORE.h5 40 [TASKS [options of h5spec run]]
#   h5spec merge -o RESULT.h5 PARTS/*.h5
#
# A group whose result is there already is left alone.
# One slot: where the gpu is counted for each slot, -pe smp 4 would ask for four. Elsewhere give -pe smp 4.
#$ -N h5spec-groups
#$ -l gpu=1
#$ -r y
#$ -cwd -S /bin/sh
parts=$1 store=$2 groups=$3 tasks=${4:-$3}
shift 3
[ $# -eq 0 ] || shift
trap : TERM USR1 USR2 XCPU # h5spec stops by itself; this waits for it
group=${SGE_TASK_ID:?this is a task of an array: qsub -t 1-N}
status=0
while [ "$group" -le "$groups" ]; do
    "${H5SPEC:-h5spec}" run --groups "$group" -j "${NSLOTS:-1}" --json --progress no \
        -o "$parts" "$@" "$store" || status=$?
    [ $status -le 1 ] || break
    group=$((group + tasks))
done
exit $status
