#!/bin/sh
# Array job of OpenPBS: computes results of stores with h5spec, on one GPU per task. Task I of TASKS takes lines
# I, I + TASKS, ... of LIST.
#
#   mkdir -p results; ls stores/*.h5 >stores.txt
#   qsub -V -J 1-20 -v TASKS=20,OUT=results/,LIST=stores.txt scripts/pbs/process.sh
#
# On CPUs: qsub -l select=1:ncpus=4 -v "OPTIONS=--device cpu,..." ... OPTIONS are divided at blanks. JSON lines and messages
# go to h5spec.oJOB.TASK and h5spec.eJOB.TASK. Existing results are kept, so the same command submitted again does what
# remains. H5SPEC names the program if it is not in PATH.
#PBS -N h5spec
#PBS -l select=1:ncpus=4:ngpus=1:mem=4gb
#PBS -r y
task=${PBS_ARRAY_INDEX:?this is a task of an array job: use qsub -J 1-N}
cd "${PBS_O_WORKDIR:-.}" || exit
echo "process.sh: task $task on $(hostname), $(date -u +%Y-%m-%dT%H:%M:%SZ)" >&2
# --device cuda: a task that cannot use its GPU fails, instead of holding it while it computes on the CPU
# shellcheck disable=SC2086 # OPTIONS are words
exec ${WSI_STAGE:+"$WSI_STAGE"} "${H5SPEC:-h5spec}" run --device cuda --task "$task/$TASKS" --list "$LIST" -j "${NCPUS:-1}" \
    --json --progress no -o "$OUT" $OPTIONS
