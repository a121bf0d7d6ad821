/** Live streams of jobs (S4). src/feed/ creates the text of the events. */
import { z } from "zod"
import { UmbraError } from "../../errors.ts"
import { readJobPosition, readPosition } from "../../feed/position.ts"
import { JobStream, OwnerStream } from "../../feed/stream.ts"
import { type App, operations, type RouteContext } from "../route-context.ts"
import * as schema from "../schemas/job.ts"
import type { Streams } from "../streams.ts"

const { read } = operations("jobs")

const where = {
  headers: schema.resumeHeaders,
  querystring: z.strictObject({
    last_event_id: schema.eventId
      .optional()
      .describe("Same as the header Last-Event-ID, for clients that cannot set headers."),
  }),
}

const resuming =
  "With `Last-Event-ID` the stream continues after that event, on any server: no change is missed or repeated. A client that is too far behind gets `reset` and a `snapshot`."

export function streamRoutes(app: App, { umbra }: RouteContext, streams: Streams): void {
  app.get(
    "/jobs/stream",
    {
      exposeHeadRoute: false,
      ...read({
        summary: "Stream all jobs",
        description: `Server-Sent Events: \`snapshot\` (the newest jobs that have not ended), then \`job\` for every change of a job's state, and \`progress\`. ${resuming}`,
        ...where,
        response: schema.answers(schema.eventStream(ownerExample), ["E611"]),
      }),
    },
    async (request, reply) => {
      const id = lastEventId(request)
      const after = id === undefined ? null : readPosition(id)
      if (after === "malformed") throw notAnId()
      const { owner } = request.caller
      return streams.start(request, reply, sink => new OwnerStream({ feed: umbra.feed, owner, after, sink }))
    },
  )

  app.get(
    "/jobs/:job/stream",
    {
      exposeHeadRoute: false,
      ...read({
        summary: "Stream a job and its nodes until the job has ended",
        description: `Server-Sent Events: \`snapshot\`, then \`job\` and \`node\` for every change, \`progress\`, and \`end\`. ${resuming}`,
        params: schema.jobParams,
        ...where,
        response: schema.answers(schema.eventStream(jobExample), ["E301", "E611"]),
      }),
    },
    async (request, reply) => {
      const { job_id: jobId, owner } = request.job
      const id = lastEventId(request)
      const after = id === undefined ? null : readJobPosition(id)
      if (after === "malformed") throw notAnId()
      return streams.start(
        request,
        reply,
        sink => new JobStream({ feed: umbra.feed, owner, jobId, after, sink }),
      )
    },
  )
}

export function lastEventId(request: {
  readonly headers: { readonly "last-event-id"?: string | undefined }
  readonly query: { readonly last_event_id?: string | undefined }
}): string | undefined {
  const id = request.headers["last-event-id"] ?? request.query.last_event_id
  // EventSource sends this before it has received an id.
  return id === "" ? undefined : id
}

export function notAnId(): UmbraError {
  return new UmbraError(
    "E633",
    "Last-Event-ID is not an id of this stream. Send the last id that you received, or none to start with a snapshot.",
  )
}

const ownerExample = `retry: 1000

event: snapshot
id: j1.kM3f…
data: {"jobs":[]}

event: job
id: j1.kM3g…
data: {"job_id":"0198c0de-7a11-7012-9abc-0123456789ab","workflow":"order","workflow_version":3,"status":"PENDING","progress_pct":0,"progress_message":null,"created_at":"2026-11-15T12:00:00.000Z","updated_at":"2026-11-15T12:00:00.000Z","finished_at":null,"labels":{},"error":null}
`

const jobExample = `event: node
id: 17179869187.2
data: {"job_id":"0198c0de-7a11-7012-9abc-0123456789ab","node":"price","status":"COMPLETED","from":"RUNNING","attempt":1,"at":"2026-11-15T12:00:01.250Z"}

event: end
data: {"reason":"job_ended"}
`
