/** `call_external_service`: one HTTP request. */
import { z } from "zod"
import type { HandlerSpec } from "../../definition/handler.ts"

const status = z.int().min(100).max(599)
/** The type of a query parameter or header; a number is written as text. */
const scalar = z.union([z.string(), z.number(), z.boolean()])

const config = z
  .strictObject({
    method: z
      .enum(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
      .default("GET")
      .describe("Default GET."),
    url: z
      .url({ protocol: /^https?$/, error: "An http or https URL is required" })
      .describe("The URL, http or https."),
    headers: z.record(z.string(), scalar).optional().describe("Headers besides those set for the body."),
    query: z
      .record(z.string(), z.union([scalar, z.array(scalar).max(1000)]))
      .optional()
      .describe("Parameters added to the URL; a list repeats its parameter."),
    json: z.unknown().optional().describe("A body of any shape, sent as application/json."),
    text: z
      .string()
      .optional()
      .describe("A body sent unchanged, as text/plain unless a header sets another type."),
    expected_status: z
      .union([status, z.array(status).min(1).max(1000)])
      .optional()
      .describe("Statuses that mean success; any other fails the attempt. Default: 200 to 299."),
    timeout_seconds: z
      .number()
      .positive()
      .max(86_400)
      .default(30)
      .describe("The timeout of the whole request, including the body. Default 30."),
    follow_redirects: z
      .union([z.boolean(), z.int().min(0).max(20)])
      .default(true)
      .describe("Whether to follow redirects, or how many; true means 5. Each address is checked again."),
    max_response_bytes: z
      .int()
      .min(1)
      .max(16 * 1024 * 1024)
      .default(10 * 1024 * 1024)
      .describe("A longer body fails the attempt. Default 10 MiB."),
  })
  .refine(({ json, text }) => json === undefined || text === undefined, {
    message: "Give json or text, not both",
    path: ["text"],
  })

const output = z.object({
  status: z.int().describe("The response's status."),
  headers: z.record(z.string(), z.string()).describe("Its headers, names in lower case."),
  body: z.unknown().describe("Parsed if its type is JSON, otherwise text; null if there was none."),
  encoding: z
    .enum(["json", "text", "base64"])
    .describe("The format of body; base64 if its bytes are not text."),
})

export const callExternalServiceSpec = {
  ...{ name: "call_external_service", config, output },
  providerHeaders: ["host"],
} satisfies HandlerSpec
