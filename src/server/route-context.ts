import type { IncomingMessage, ServerResponse } from "node:http"
import type { FastifyBaseLogger, FastifyInstance, RawServerDefault } from "fastify"
import type { ZodTypeProvider } from "fastify-type-provider-zod"
import type { JobSnapshot } from "../engine/owner/snapshot.ts"
import { noSuchJob } from "../jobs/queries.ts"
import type { Umbra } from "../umbra.ts"
import { type Caller, sees } from "./auth/caller.ts"
import type { Tokens } from "./auth/tokens.ts"
import type { Unfinished } from "./http/unfinished.ts"
import type { ServerSettings } from "./settings.ts"
import type { Stopping } from "./stopping.ts"

export type App = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  ZodTypeProvider
>

/** What the routes share. */
export interface RouteContext {
  readonly umbra: Umbra
  readonly settings: ServerSettings
  readonly tokens: Tokens
  /** Requests without a token belong to the local owner. */
  readonly isOpen: boolean
  /** When the process stops, waiting requests are answered with the current state. */
  readonly stopping: Stopping
  readonly unfinished: Unfinished
}

/** S3: another owner's job is reported as not found. Every route that takes a job's id must call this. */
export async function ownJob(umbra: Umbra, caller: Caller, jobId: string): Promise<JobSnapshot> {
  const job = await umbra.summary(jobId)
  if (!sees(caller, job.owner)) throw noSuchJob(jobId)
  return job
}
