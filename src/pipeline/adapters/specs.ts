/** The built-in adapters for the pipeline builder: types and configs, without the code that runs them. */
import { aggregate } from "./aggregate.ts"
import { batch } from "./batch.ts"
import { fileSinkSpec } from "./files/file-sink.ts"
import { fileSourceSpec } from "./files/file-source.ts"
import { jsonlSinkSpec } from "./files/jsonl-sink.ts"
import { jsonlSourceSpec } from "./files/jsonl-source.ts"
import { filter } from "./filter.ts"
import { httpFetchSpec } from "./http-fetch.ts"
import { llmSpec } from "./llm.ts"
import { log } from "./log.ts"
import { postgresSinkSpec } from "./postgres/sink.ts"
import { postgresSourceSpec } from "./postgres/source.ts"
import { split } from "./split.ts"
import { submitJob } from "./submit-job.ts"
import { transform } from "./transform.ts"

export const adapters = {
  transform,
  filter,
  split,
  batch,
  aggregate,
  log,
  submitJob,
  httpFetch: httpFetchSpec,
  llm: llmSpec,
  fileSource: fileSourceSpec,
  fileSink: fileSinkSpec,
  jsonlSource: jsonlSourceSpec,
  jsonlSink: jsonlSinkSpec,
  postgresSource: postgresSourceSpec,
  postgresSink: postgresSinkSpec,
} as const
