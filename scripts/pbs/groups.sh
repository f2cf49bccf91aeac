#!/bin/sh
# Array job of OpenPBS: computes one slide, one task per group of its store. GROUPS_IN_STORE is the number of groups, as
# End - Start + 1 in the table of h5spec lookup. Task I of TASKS takes groups I, I + TASKS, ...
#
#   mkdir -p parts
#   qsub -V -J 1-40 -v TASKS=40,OUT=parts/,STORE=store.h5,GROUPS_IN_STORE=40 scripts/pbs/groups.sh
#   h5spec merge -o result.h5 parts/*.h5
#
# On CPUs: qsub -l select=1:ncpus=4 -v "OPTIONS=--device cpu,..." ... OPTIONS are divided at blanks. JSON lines and messages
# go to h5spec-groups.oJOB.TASK and h5spec-groups.eJOB.TASK. Existing results are kept. H5SPEC names the program if it is
# not in PATH.
#PBS -N h5spec-groups
#PBS -l select=1:ncpus=4:ngpus=1:mem=4gb
#PBS -r y
group=${PBS_ARRAY_INDEX:?this is a task of an array job: use qsub -J 1-N}
cd "${PBS_O_WORKDIR:-.}" || exit
echo "groups.sh: task $group on $(hostname), $(date -u +%Y-%m-%dT%H:%M:%SZ)" >&2
trap : TERM USR1 USR2 XCPU # h5spec stops by itself, and this script waits for it
status=0
while [ "$group" -le "$GROUPS_IN_STORE" ]; do
    # shellcheck disable=SC2086 # OPTIONS are words
    "${H5SPEC:-h5spec}" run --accept-damage --device cuda --groups "$group" -j "${NCPUS:-1}" --json --progress no -o "$OUT" $OPTIONS "$STORE" ||
        status=$?
    [ $status -le 1 ] || break
    group=$((group + TASKS))
done
exit $status
