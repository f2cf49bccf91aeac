#!/bin/sh
# Array job: converts slides to stores with wsi2h5. Task I of N takes lines I, I + N, ... of the list.
#
#   mkdir -p stores
#   qsub -t 1-100 scripts/sge/convert.sh stores/ slides.txt [options of wsi2h5]
#
# One JSON line per slide goes to wsi2h5.oJOB.TASK, messages go to wsi2h5.eJOB.TASK, both in the current
# folder. Existing stores are kept, so the same command submitted again does what remains.
# WSI2H5 names the program if it is not in PATH. On small nodes: qsub -pe smp 1 ...
#$ -N wsi2h5
#$ -pe smp 4
#$ -r y -j n
#$ -cwd -S /bin/sh
stores=$1 list=$2
shift 2
echo "convert.sh: task $SGE_TASK_ID on $(hostname), $(date -u +%Y-%m-%dT%H:%M:%SZ)" >&2
# exec: the scheduler's signals reach the program itself, which then stops and removes unfinished files
exec ${WSI_STAGE:+"$WSI_STAGE"} "${WSI2H5:-wsi2h5}" --task auto --list "$list" -j "${NSLOTS:-1}" --json --progress no \
    -o "$stores" "$@"
