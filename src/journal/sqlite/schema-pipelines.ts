/** Tables of the pipeline store (pipeline-store.ts). */
export const pipelineTables = ""
