/** The adapters that every engine and worker has. */
import { HttpClient } from "../../worker/http/client.ts"
import type { WorkerSettings } from "../../worker/settings.ts"
import type { Adapter } from "../adapter.ts"
import { aggregate } from "./aggregate.ts"
import { batch } from "./batch.ts"
import { AllowedFiles } from "./files/allowed.ts"
import { fileSink } from "./files/file-sink.ts"
import { fileSource } from "./files/file-source.ts"
import { jsonlSink } from "./files/jsonl-sink.ts"
import { jsonlSource } from "./files/jsonl-source.ts"
import { filter } from "./filter.ts"
import { httpFetch } from "./http-fetch.ts"
import { llm } from "./llm.ts"
import { log } from "./log.ts"
import { Connections } from "./postgres/connections.ts"
import { postgresSink } from "./postgres/sink.ts"
import { postgresSource } from "./postgres/source.ts"
import type { AdapterSettings } from "./settings.ts"
import { split } from "./split.ts"
import { submitJob } from "./submit-job.ts"
import { transform } from "./transform.ts"

export type BuiltinAdapterSettings = AdapterSettings & Pick<WorkerSettings, "allowPrivateAddresses">

export function builtinAdapters(settings: BuiltinAdapterSettings): Adapter[] {
  const http = new HttpClient(settings)
  const connections = new Connections(settings)
  const files = new AllowedFiles(settings.allowFiles)
  return [
    transform,
    filter,
    split,
    batch,
    aggregate,
    log,
    submitJob,
    httpFetch(http),
    llm(http),
    fileSource(files),
    fileSink(files),
    jsonlSource(files),
    jsonlSink(files),
    postgresSource(connections),
    postgresSink(connections),
  ]
}
