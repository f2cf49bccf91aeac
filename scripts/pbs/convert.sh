#!/bin/sh
# Array job of OpenPBS: converts slides to stores with wsi2h5. Task I of TASKS takes lines I, I + TASKS, ... of LIST.
#
#   mkdir -p stores
#   qsub -V -J 1-100 -v TASKS=100,OUT=stores/,LIST=slides.txt scripts/pbs/convert.sh
#
# OPTIONS="--gray --level 1" adds options of wsi2h5, divided at blanks. JSON lines and messages go to wsi2h5.oJOB.TASK and
# wsi2h5.eJOB.TASK. Existing stores are kept, so the same command submitted again does what remains.
# WSI2H5 names the program if it is not in PATH.
#PBS -N wsi2h5
#PBS -l select=1:ncpus=4:mem=4gb
#PBS -r y
task=${PBS_ARRAY_INDEX:?this is a task of an array job: use qsub -J 1-N}
cd "${PBS_O_WORKDIR:-.}" || exit
echo "convert.sh: task $task on $(hostname), $(date -u +%Y-%m-%dT%H:%M:%SZ)" >&2
# shellcheck disable=SC2086 # OPTIONS are words; exec: signals reach the program itself
exec ${WSI_STAGE:+"$WSI_STAGE"} "${WSI2H5:-wsi2h5}" --task "$task/$TASKS" --list "$LIST" -j "${NCPUS:-1}" --json --progress no \
    -o "$OUT" $OPTIONS
