/**
 * Artifacts over HTTP. Content is never shown as a page of this server: it is sent as a file, under a policy that lets it do nothing.
 * An artifact of another owner is not found (404).
 */
import { Readable } from "node:stream"
import type { FastifyReply, FastifyRequest } from "fastify"
import { z } from "zod"
import { tooLarge } from "../../artifacts/content-store.ts"
import { UmbraError } from "../../errors.ts"
import type { Umbra } from "../../umbra.ts"
import { hasEtag } from "../http/immutable.ts"
import { attachment, wantedRange } from "../http/ranges.ts"
import { checkUpload, uploadedBytes } from "../http/uploads.ts"
import { type App, operations, type RouteContext } from "../route-context.ts"
import * as views from "../schemas/artifacts.ts"
import * as schema from "../schemas/job.ts"

const { read, submit, manage, admin } = operations("artifacts")
const params = z.object({ hash: views.hash })
const failures = ["E801", "E808"] as const

export function artifactRoutes(app: App, { umbra, isOpen }: RouteContext): void {
  const { artifacts } = umbra

  app.get(
    "/artifacts",
    read({
      summary: "List artifacts, by their hashes",
      querystring: views.pageQuery,
      response: schema.answers({ 200: views.page }, []),
    }),
    async ({ caller: { owner }, query }) => artifacts.list({ owner, ...query }),
  )

  app.get(
    "/jobs/:job/artifacts",
    read({
      summary: "List the artifacts that a job refers to",
      params: schema.jobParams,
      querystring: views.pageQuery,
      response: schema.answers({ 200: views.page }, ["E301"]),
    }),
    async ({ job: { job_id: jobId, owner }, query }) => artifacts.list({ owner, jobId, ...query }),
  )

  const content = {
    params,
    querystring: views.contentQuery,
    response: schema.answers(views.content, ["E802", "E803", "E809", ...failures]),
  }
  const headers =
    "`Range` with one range, `If-Range` and `If-None-Match` are supported. With `redirect` the response is a redirect to a URL of the bucket, if artifacts are stored in one."
  app.get(
    "/artifacts/:hash",
    {
      // It would read all of the content.
      exposeHeadRoute: false,
      ...read({ summary: "Download an artifact", description: headers, ...content }),
    },
    async (request, reply) => {
      const { owner } = request.caller
      const wanted = await describeContent(umbra, request, reply)
      if (wanted === null) return reply.code(304).send(undefined as never)
      const { redirect, name } = request.query
      const url = redirect === "true" ? await artifacts.presign(wanted.artifact, { owner, name }) : null
      if (url !== null) return redirected(reply, url)
      const { range, artifact } = wanted
      const found = await artifacts.get(artifact, { owner, range: range ?? undefined })
      return reply.code(range === null ? 200 : 206).send(Readable.from(found, { objectMode: false }) as never)
    },
  )
  app.head(
    "/artifacts/:hash",
    read({ summary: "Show the size and type of an artifact as headers", description: headers, ...content }),
    async (request, reply) => {
      const wanted = await describeContent(umbra, request, reply)
      const status = wanted === null ? 304 : wanted.range === null ? 200 : 206
      return reply.code(status).send(undefined as never)
    },
  )

  app.delete(
    "/artifacts/:hash",
    manage({
      summary: "Remove an artifact",
      description: "Refused while jobs or schedules refer to it, unless `force` is true.",
      params,
      querystring: views.removalQuery,
      response: schema.answers({ 204: z.null() }, ["E802", "E806", ...failures]),
    }),
    async ({ caller: { owner }, params: { hash }, query: { force } }, reply) => {
      await artifacts.remove(hash, { owner, force: force === "true" })
      return reply.code(204).send(null)
    },
  )

  app.post(
    "/artifacts/sweep",
    admin({
      summary: "Sweep artifacts now",
      description:
        "Marks unreferenced artifacts, and removes those that an earlier sweep has marked. It covers all owners, so only commands on the server's machine may start it. Engines also do this automatically.",
      querystring: views.sweepQuery,
      response: schema.answers({ 200: views.sweepReport }, [...failures]),
    }),
    async ({ query, caller }) => {
      if (!isOpen && caller.everyOwner !== true)
        throw new UmbraError(
          "E631",
          "A sweep is for all owners: run `umbra artifacts gc` on the server's machine.",
        )
      return artifacts.sweep({ dryRun: query.dry_run === "true" })
    },
  )
}

/** Its own scope: here a body of any type is read as a stream. */
export function uploadRoute(app: App, { umbra, settings }: RouteContext): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser("*", (_, payload, done) => done(null, payload))
  app.post(
    "/artifacts",
    submit({
      summary: "Store an artifact",
      description:
        "The body is the content, of any type and size; it streams into the store. Its Content-Type is the type of the artifact. The response is the reference to use in inputs and signals.",
      querystring: views.uploadQuery,
      response: schema.answers({ 201: views.reference }, ["E309", "E636", "E804", "E805", ...failures]),
    }),
    async (request, reply) => {
      const { caller, raw, query, headers } = request
      const { maxBytes } = umbra.artifacts.settings
      const body = uploadedBytes(raw, settings.requestTimeoutSeconds * 1000)
      try {
        checkUpload(raw)
        const type = uploadedType(headers["content-type"])
        if (Number(headers["content-length"]) > maxBytes) throw tooLarge(maxBytes)
        const reference = await umbra.artifacts.put(query.name, body, { owner: caller.owner, type })
        return await reply.code(201).send(reference)
      } catch (error) {
        // The rest of the body is not read: nothing else may follow it on this connection.
        void reply.header("connection", "close")
        throw error
      }
    },
  )
}

/** `curl --data-binary` says that any file is a form. */
function uploadedType(declared = UNKNOWN_TYPE): string {
  if (/^multipart\//i.test(declared))
    throw new UmbraError(
      "E636",
      "The body must be the content itself, not a form with parts: curl --data-binary @FILE, not curl --form.",
    )
  return declared === "application/x-www-form-urlencoded" ? UNKNOWN_TYPE : declared
}

const UNKNOWN_TYPE = "application/octet-stream"

/** To a URL that is valid for minutes, and for everybody. */
function redirected(reply: FastifyReply, url: string): FastifyReply {
  for (const name of ["content-disposition", "content-length", "content-range"]) void reply.removeHeader(name)
  const headers = { location: url, "cache-control": "no-store", "content-type": "text/plain" }
  return reply.code(302).headers(headers).send("")
}

/** As what a page may load content: nothing that executes it. Browsers say it with every request. */
const shownAs: ReadonlySet<unknown> = new Set([undefined, "empty", "document", "image", "video", "audio"])

interface Wanted {
  readonly artifact: string
  /** null: all of it. */
  readonly range: { readonly first: number; readonly last: number } | null
}

/** Sets the headers of the answer. null: the client has the content. */
async function describeContent(
  { artifacts }: Umbra,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<Wanted | null> {
  const { params, query, headers } = request
  const { owner } = request.caller
  const { hash } = params as { readonly hash: string }
  const destination = headers["sec-fetch-dest"]
  if (!shownAs.has(destination))
    throw new UmbraError("E631", `An artifact cannot be loaded as ${String(destination)} of a page.`)
  const found = await artifacts.describe(hash, { owner })
  const etag = `"${hash}"`
  void reply.headers({
    etag,
    "accept-ranges": "bytes",
    "cache-control": "private, no-cache",
    "content-security-policy": "default-src 'none'; sandbox",
  })
  if (hasEtag(request, etag)) return null
  const { bytes } = found
  const range = readRange(headers, { etag, bytes }, reply)
  void reply.headers({
    "content-type": found.type,
    "content-disposition": attachment((query as { name?: string }).name ?? found.name),
    "content-length": String(range === null ? bytes : range.last - range.first + 1),
    ...(range === null ? {} : { "content-range": `bytes ${range.first}-${range.last}/${bytes}` }),
  })
  return { artifact: hash, range }
}

function readRange(
  headers: FastifyRequest["headers"],
  of: { readonly etag: string; readonly bytes: number },
  reply: FastifyReply,
): Wanted["range"] {
  try {
    return wantedRange(headers, of)
  } catch (error) {
    if (error instanceof UmbraError) void reply.header("content-range", `bytes */${of.bytes}`)
    throw error
  }
}
