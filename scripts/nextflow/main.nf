/*
 * A corpus with Nextflow: it carries out the batches of OUT/plan.tsv. One task per batch and step.
 *
 *   wsi-corpus plan -o study slides/
 *   nextflow run scripts/nextflow/main.nf --out study [-profile slurm] [-resume]
 *
 * wsi-corpus knows the slides: series, equal names, what remains. Tasks read slides and write stores and results
 * at the places that the plan names, so OUT and the slides must be visible to all nodes. After a run, plan again
 * and start again: that does what remains.
 */
nextflow.enable.dsl = 2

params.out = null
params.corpus = 'wsi-corpus'

process CONVERT {
    tag "$batch"
    label 'process_medium'

    input:
    tuple val(run), val(batch)

    output:
    tuple val(run), val(batch)

    script:
    """
    ${params.corpus} step -o '${file(params.out)}' --batch $batch --stage convert || case \$? in 1|4) ;; *) exit \$? ;; esac
    """
}

process PROCESS {
    tag "$batch"
    label 'process_medium'
    label 'process_gpu'

    input:
    tuple val(run), val(batch)

    output:
    val batch

    script:
    """
    ${params.corpus} step -o '${file(params.out)}' --batch $batch --stage process || case \$? in 1|4) ;; *) exit \$? ;; esac
    """
}

process FINISH {
    label 'process_single'

    input:
    val batches

    output:
    path 'status.json'
    path 'versions.yml'

    script:
    """
    ${params.corpus} finish -o '${file(params.out)}' || [ \$? -ne 2 ]
    ${params.corpus} status -o '${file(params.out)}' --json >status.json || true
    printf '"%s":\\n    wsi2h5: %s\\n    h5spec: %s\\n' '${task.process}' \\
        "\$(wsi2h5 --version | awk 'NR == 1 { print \$2 }')" "\$(h5spec --version | awk 'NR == 1 { print \$2 }')" >versions.yml
    """
}

workflow {
    if (!params.out || !file("${params.out}/plan.tsv").exists()) {
        error "no plan: run wsi-corpus plan -o OUT SLIDES, and name OUT in --out"
    }
    plan = file("${params.out}/plan.tsv")
    run = plan.withReader { it.readLine() }
    batches = Channel.of(plan)
        .splitCsv(header: true, sep: '\t', skip: 1)
        .map { row -> tuple(run, row.batch as int, row.step) }
        .unique()
        .branch { row ->
            convert: row[2] == 'convert'
            process: true
        }
    CONVERT(batches.convert.map { row -> tuple(row[0], row[1]) })
    PROCESS(CONVERT.out.mix(batches.process.map { row -> tuple(row[0], row[1]) }))
    FINISH(PROCESS.out.collect().ifEmpty([]))
}
