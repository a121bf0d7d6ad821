/** The adapters that every engine and worker has. */
import { HttpClient } from "../../worker/http/client.ts"
import type { WorkerSettings } from "../../worker/settings.ts"
import type { Adapter } from "../adapter.ts"
import { AdapterRegistry } from "../registry/registry.ts"
import { AllowedFiles } from "./files/allowed.ts"
import { fileSink, fileSinkSpec, jsonlSink, jsonlSinkSpec } from "./files/sink.ts"
import { fileSource, fileSourceSpec, jsonlSource, jsonlSourceSpec } from "./files/source.ts"
import { httpFetch, httpFetchSpec, llm, llmSpec } from "./http.ts"
import { aggregate, batch, filter, log, split, submitJob, transform } from "./plain.ts"
import {
  Connections,
  postgresSink,
  postgresSinkSpec,
  postgresSource,
  postgresSourceSpec,
} from "./postgres.ts"
import { type AdapterSettings, adapterSettings } from "./settings.ts"

export type BuiltinAdapterSettings = AdapterSettings & Pick<WorkerSettings, "allowPrivateAddresses">

const plain = { transform, filter, split, batch, aggregate, log, submitJob }

export function builtinAdapters(settings: BuiltinAdapterSettings): Adapter[] {
  const http = new HttpClient(settings)
  const connections = new Connections(settings)
  const files = new AllowedFiles(settings.allowFiles)
  return [
    ...Object.values(plain),
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

/** The built-in adapters for the pipeline builder: types and configs, without the code that runs them. */
export const adapters = {
  ...plain,
  httpFetch: httpFetchSpec,
  llm: llmSpec,
  fileSource: fileSourceSpec,
  fileSink: fileSinkSpec,
  jsonlSource: jsonlSourceSpec,
  jsonlSink: jsonlSinkSpec,
  postgresSource: postgresSourceSpec,
  postgresSink: postgresSinkSpec,
} as const

/** The adapters of a process: the built-in ones and those that were registered. */
export function adapterRegistry(
  options: { readonly adapters?: readonly Adapter[]; readonly files?: Partial<AdapterSettings> },
  worker: WorkerSettings,
): AdapterRegistry {
  const registry = new AdapterRegistry(builtinAdapters({ ...worker, ...adapterSettings(options.files) }))
  registry.add(...(options.adapters ?? []))
  return registry
}
