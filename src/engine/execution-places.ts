/** P1: a place for the execution of a pipeline; rejects if there is none. Answers how to give it back. */
export type ClaimExecution = (jobId: string) => Promise<() => Promise<void>>

/** For engines that run no pipelines. */
export const anyExecution: ClaimExecution = async () => async () => {}
