import type { IncomingMessage, ServerResponse } from "node:http"
import type { FastifyBaseLogger, FastifyInstance, FastifyRequest, RawServerDefault } from "fastify"
import type { ZodTypeProvider } from "fastify-type-provider-zod"
import type { JobSnapshot } from "../engine/owner/snapshot.ts"
import { UmbraError } from "../errors.ts"
import { noSuchJob } from "../jobs/arguments.ts"
import type { Umbra } from "../umbra.ts"
import { sees } from "./auth/caller.ts"
import type { Scope, Tokens } from "./auth/tokens.ts"
import type { Unfinished } from "./http/unfinished.ts"
import type { ServerSettings } from "./settings.ts"

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

/** The options of routes: each takes a schema, and declares the scope that the route needs. */
export function operations(tag: string) {
  const needs =
    (scope: Scope | "none") =>
    <S extends object>(schema: S, more: { isDocument?: true; isSigned?: true; mayLackJob?: true } = {}) => ({
      config: { scope, ...more },
      schema: { tags: [tag], ...schema },
    })
  return {
    open: needs("none"),
    read: needs("read"),
    submit: needs("submit"),
    manage: needs("manage"),
    admin: needs("admin"),
  }
}

declare module "fastify" {
  interface FastifyRequest {
    /** For a route with `:job`: the job, which the caller may see. */
    job: JobSnapshot
    /** `routeOptions.config`, which fastify builds again for each access. */
    route: FastifyRequest["routeOptions"]["config"]
  }
  interface FastifyContextConfig {
    /** The route answers also if the job was removed from the store; `job` is undefined then. */
    mayLackJob?: true
  }
}

/** S3: for every route that takes a job's id, another owner's job is reported as not found. */
export function readJobs(app: App, umbra: Umbra): void {
  const read = async (request: FastifyRequest, id: string) => {
    const { mayLackJob } = request.route
    try {
      request.job = await umbra.summary(id)
    } catch (error) {
      if (mayLackJob && error instanceof UmbraError && error.code === "E301") return
      throw error
    }
    if (!sees(request.caller, request.job.owner)) throw noSuchJob(id)
  }
  app.addHook("preHandler", (request, _, done) => {
    const { job: id } = request.params as { readonly job?: string }
    return id === undefined ? done() : read(request, id)
  })
}

/** Notifies waiting requests that the process stops. A Set, since ten thousand may wait, and each comes and goes. */
export class Stopping {
  #isStopping = false
  readonly #waiting = new Set<() => void>()

  get isStopping(): boolean {
    return this.#isStopping
  }

  /** Calls `listener` when the process stops, or at once if it is stopping. Returns a function that unsubscribes. */
  onStop(listener: () => void): () => void {
    if (this.#isStopping) listener()
    else this.#waiting.add(listener)
    return () => void this.#waiting.delete(listener)
  }

  stop(): void {
    this.#isStopping = true
    for (const listener of this.#waiting) listener()
    this.#waiting.clear()
  }
}
