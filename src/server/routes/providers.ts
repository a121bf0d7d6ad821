/** External services: their webhooks, which have no token, and their state. */
import { z } from "zod"
import { answerProblem } from "../http/problem.ts"
import { type App, operations, type RouteContext } from "../route-context.ts"
import * as schema from "../schemas/job.ts"
import * as views from "../schemas/provider.ts"

const { admin, open } = operations("providers")
const params = z.object({ provider: z.string().min(1).max(100).meta({ example: "acme" }) })
const MANY_EVENTS = 100

const received = z.object({ received: z.literal(true), duplicate: z.boolean() })

export function providerRoutes(app: App, { umbra }: RouteContext): void {
  app.get(
    "/providers",
    admin({
      summary: "Show the providers of this process: slots, their holders, waiting nodes, recent errors",
      description: "The answer shows jobs of all owners, so the scope admin is required.",
      response: schema.answers({ 200: z.object({ providers: z.array(views.provider) }) }, []),
    }),
    async () => ({ providers: (await umbra.providers()) as z.infer<typeof views.provider>[] }),
  )

  app.get(
    "/providers/:provider/webhooks",
    admin({
      summary: "Show the latest webhooks of a provider, including rejected ones; newest first",
      params,
      response: schema.answers({ 200: z.object({ webhooks: z.array(views.webhook) }) }, ["E660"]),
    }),
    async request => {
      const events = await umbra.webhookEvents(request.params.provider, MANY_EVENTS)
      return {
        webhooks: events.map(({ eventId, externalId, receivedAt, verdict, reason, bytes }) => ({
          event_id: eventId,
          external_id: externalId,
          received_at: new Date(receivedAt).toISOString(),
          ...{ verdict, reason, bytes },
        })),
      }
    },
  )
}

/** X2. The body is read as bytes whatever its content type: the signature covers the bytes. */
export async function webhookRoute(app: App, { umbra }: RouteContext): Promise<void> {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser("*", { parseAs: "buffer" }, (_, body, done) => done(null, body))
  app.post(
    "/webhooks/:provider",
    {
      bodyLimit: umbra.webhooks.maxBytes,
      errorHandler: async (error, request, reply) => {
        if (error.code !== "FST_ERR_CTP_BODY_TOO_LARGE") throw error
        const { provider } = request.params as { provider: string }
        const bytes = Number(request.headers["content-length"] ?? umbra.webhooks.maxBytes + 1)
        return answerProblem(reply, await umbra.webhooks.tooLarge(provider, bytes))
      },
      ...open(
        {
          summary: "Receive a provider's webhook",
          description:
            "No token is needed: the provider's signature over the body is verified instead. 202 means that the event and " +
            "its consequences are durable; a repeated delivery has no effect.",
          security: [],
          params,
          response: schema.answers({ 202: received }, ["E611", "E635", "E660", "E661", "E662"], true),
        },
        { isSigned: true },
      ),
    },
    async (request, reply) => {
      const { provider } = request.params as { provider: string }
      // A webhook without a body is rejected and recorded like any other.
      const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0)
      const { isNew } = await umbra.webhooks.receive(provider, {
        body,
        headers: joinHeaders(request.headers),
      })
      return reply.code(202).send({ received: true, duplicate: !isNew })
    },
  )
}

function joinHeaders(
  headers: Readonly<Record<string, string | string[] | undefined>>,
): Record<string, string> {
  const entries = Object.entries(headers).map(([name, value]) => [name, [value].flat().join(", ")])
  return Object.fromEntries(entries) as Record<string, string>
}
