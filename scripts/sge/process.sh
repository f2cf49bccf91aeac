#!/bin/sh
# Array job: computes results of stores with h5spec, on one GPU per task. Task I of N takes lines
# I, I + N, ... of the list.
#
#   mkdir -p results; ls stores/*.h5 >stores.txt
#   qsub -t 1-20 scripts/sge/process.sh results/ stores.txt [options of h5spec run]
#
# On CPUs: qsub -l gpu=0 ... scripts/sge/process.sh results/ stores.txt --device cpu
# One JSON line per store goes to h5spec.oJOB.TASK, messages go to h5spec.eJOB.TASK, both in the current
# folder. Existing results are kept, so the same command submitted again does what remains.
# H5SPEC names the program if it is not in PATH.
# The task asks for one slot, because many sites count the gpu per slot; elsewhere give -pe smp 4.
#$ -N h5spec
#$ -l gpu=1
#$ -r y -j n
#$ -cwd -S /bin/sh
results=$1 list=$2
shift 2
echo "process.sh: task $SGE_TASK_ID on $(hostname), $(date -u +%Y-%m-%dT%H:%M:%SZ)" >&2
# --device cuda: a task that cannot use its GPU fails, instead of holding it while it computes on the CPU
exec ${WSI_STAGE:+"$WSI_STAGE"} "${H5SPEC:-h5spec}" run --device cuda --task auto --list "$list" -j "${NSLOTS:-1}" --json \
    --progress no -o "$results" "$@"
