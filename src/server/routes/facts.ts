/** The journal of a job as an interface: its facts, as pages or as a stream, and their payloads. */
import { z } from "zod"
import { FactStream } from "../../feed/fact-stream.ts"
import { pathSteps } from "../../jobs/fact-records.ts"
import { factsAfter } from "../../jobs/facts.ts"
import type { Umbra } from "../../umbra.ts"
import { isKnown } from "../http/immutable.ts"
import { wrong } from "../list-queries.ts"
import { factsQuery } from "../past-queries.ts"
import { jobReport, keptPayloads, type ReportOptions } from "../report.ts"
import { type App, operations, type RouteContext } from "../route-context.ts"
import * as views from "../schemas/facts.ts"
import * as schema from "../schemas/job.ts"
import type { Streams } from "../streams.ts"
import { lastEventId, notAnId } from "./streams.ts"

const { read } = operations("jobs")
const params = schema.jobParams
const REPORT_PAGE = 500

interface FactRoutes extends RouteContext {
  readonly reports: Pick<ReportOptions, "folder" | "version">
}

async function* factPages(facts: Umbra["queries"]["facts"], jobId: string) {
  const ask = (after?: string) => facts.page(jobId, { ...factsAfter(after), limit: REPORT_PAGE })
  for (let after: string | null | undefined; after !== null; ) {
    const page = await ask(after)
    yield page.facts
    after = page.next
  }
}

export function factRoutes(app: App, { umbra, reports }: FactRoutes, streams: Streams): void {
  const { facts } = umbra.queries

  app.get(
    "/jobs/:job/report",
    read({
      summary: "Download a job as one HTML file that replays it",
      description:
        "The page of the job with its journal inside: it opens without a server. `payloads`: data of the user in the file, `none`, `preview` (whole up to 1 KiB, then the beginning) or `full`. At most 20 MB.",
      params,
      querystring: z.strictObject({ payloads: z.enum(keptPayloads).default("preview") }),
      response: schema.answers(schema.htmlFile, ["E301", "E313", "E634", "E648"]),
    }),
    async (request, reply) => {
      const { job_id: jobId } = request.job
      const html = await jobReport(
        {
          job: await umbra.queries.withDetails(request.job),
          graph: await facts.readCompiledGraph(jobId),
          facts: factPages(facts, jobId),
          payload: async (seq, field) => (await facts.payload(jobId, { seq, field })).text,
        },
        { ...reports, payloads: request.query.payloads, now: Date.now() },
      )
      return reply
        .headers({
          "content-type": "text/html; charset=utf-8",
          "content-disposition": `attachment; filename="umbra-${jobId}.html"`,
        })
        .serializer((whole: string) => whole)
        .send(html as never)
    },
  )

  app.get(
    "/jobs/:job/facts",
    {
      exposeHeadRoute: false,
      ...read({
        summary: "List the facts of a job, oldest first, or follow them",
        description:
          "A fact as it is stored: times are milliseconds since 1970, nodes are positions in the definition. A payload over 1 KiB is replaced by a reference. A full page, with `limit` facts or 4 MiB of stored data, never changes and has an ETag. With `follow`: Server-Sent Events, `fact` with the seq as its id, `live` without an id, and `end`; `Last-Event-ID` resumes the stream.",
        params,
        headers: schema.resumeHeaders,
        querystring: factsQuery,
        response: schema.answers({ 200: views.factPage, 304: views.notModified }, ["E301", "E611"]),
      }),
    },
    async (request, reply) => {
      const { job_id: jobId, owner } = request.job
      const { after, limit, follow } = request.query
      const from = factsAfter(after)
      if (follow !== undefined) {
        const id = lastEventId(request)
        if (id !== undefined && !/^\d{1,15}$/.test(id)) throw notAnId()
        const known = id === undefined ? (from.after ?? null) : Number(id)
        const live = () => umbra.queries.live(jobId)
        return streams.start(
          request,
          reply,
          sink => new FactStream({ feed: umbra.feed, facts, owner, jobId, after: known, sink, live }),
        ) as never
      }
      const page = await facts.page(jobId, { ...from, limit })
      const [first, last] = [page.facts[0], page.facts.at(-1)]
      if (page.next === null) return page
      if (isKnown(request, reply, `${jobId}-${first!.seq}-${last!.seq}-${first!.index}`))
        return reply.code(304).send(null)
      return page
    },
  )

  app.get(
    "/jobs/:job/payloads/:seq/:field",
    read({
      summary: "Show a payload of a fact",
      description:
        "The JSON value as it is stored, whole or the part at a JSON path. It never changes; its ETag is its hash.",
      params: params.extend({
        seq: z
          .string()
          .regex(/^\d{1,15}$/, "must be the seq of a fact")
          .meta({ example: "17179869187" }),
        field: z.string().max(100).meta({ description: "As in the reference.", example: "output" }),
      }),
      querystring: z.strictObject({
        path: z.string().max(2000).optional().meta({
          description: 'A JSON path that selects one value: $.name, $["any name"], $.list[0].',
          example: "$.items[0].name",
        }),
      }),
      response: schema.answers({ 200: views.payload, 304: views.notModified }, ["E301", "E313"]),
    }),
    async (request, reply) => {
      const { seq, field } = request.params
      const path = pathSteps(request.query.path ?? "$")
      if (path === null)
        throw wrong("path", "must be a JSON path that selects one value, such as $.items[0].name")
      const { text, hash } = await facts.payload(request.job.job_id, { seq: Number(seq), field, path })
      if (isKnown(request, reply, hash)) return reply.code(304).send(null)
      reply.type("application/json; charset=utf-8").serializer((whole: string) => whole)
      return reply.send(text)
    },
  )
}
