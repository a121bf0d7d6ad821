/**
 * What bodies may be: JSON, and for workflows also YAML, both as text. Never a form: browsers send those unasked. We read
 * them ourselves, since how long one may be is a matter of the caller's token: no more than that is ever kept.
 */
import { isUtf8 } from "node:buffer"
import type { IncomingMessage } from "node:http"
import type { FastifyInstance, FastifyRequest } from "fastify"
import { yamlInOnePiece } from "../definition/index.ts"
import { UmbraError } from "../errors.ts"

declare module "fastify" {
  interface FastifyContextConfig {
    /** The body is a workflow: its text goes to the route as it is, so that problems have lines and columns. */
    isDocument?: boolean
  }
}

/** Deeper than any data is, and far from where recursion ends. */
const DEEPEST = 200

/** `maxBytes`: for whoever has no limit of their own. */
export function takeBodies(app: FastifyInstance, maxBytes: number): void {
  const parse = app.getDefaultJsonParser("error", "error")
  const limitOf = (request: FastifyRequest) => request.caller?.limits?.maxBodyBytes ?? maxBytes
  const read = (request: FastifyRequest, payload: IncomingMessage, then: Then) =>
    readText(payload, { maxBytes: limitOf(request), tooLarge }, then)
  app.removeAllContentTypeParsers()
  app.addContentTypeParser("application/json", (request, payload, done) =>
    read(request, payload, (error, body) => {
      if (error !== null) return done(error)
      if (request.routeOptions.config.isDocument) return done(null, body)
      if (body === "") return done(null, undefined)
      if (depthOf(body) > DEEPEST)
        return done(new UmbraError("E633", `The body is nested deeper than ${DEEPEST} levels.`))
      parse(request, body, done)
    }),
  )
  const yaml = ["application/yaml", "application/x-yaml", "text/yaml"]
  app.addContentTypeParser(yaml, (request, payload, done) => {
    if (request.routeOptions.config.isDocument) {
      const limit = limitOf(request)
      const limits =
        limit <= yamlInOnePiece
          ? { maxBytes: limit, tooLarge }
          : { maxBytes: yamlInOnePiece, tooLarge: tooMuchYaml }
      return readText(payload, limits, (error, body) => done(error, body))
    }
    done(new UmbraError("E636", "Only workflows are taken as YAML. Send application/json."))
  })
}

type Then = (error: Error | null, text: string) => void

interface BodyLimit {
  readonly maxBytes: number
  readonly tooLarge: (maxBytes: number) => UmbraError
}

/** A body whose Content-Length is too large is not read at all; another is read up to the limit. */
function readText(payload: IncomingMessage, { maxBytes, tooLarge }: BodyLimit, then: Then): void {
  if (Number(payload.headers["content-length"]) > maxBytes) {
    then(tooLarge(maxBytes), "")
    return
  }
  const chunks: Buffer[] = []
  let bytes = 0
  const end = (error: Error | null) => {
    payload.off("data", take).off("end", whole).off("error", broken)
    if (error !== null) return then(error, "")
    const body = Buffer.concat(chunks, bytes)
    // Read all the same, what is no text would be stored as other text than was sent.
    if (isUtf8(body)) then(null, body.toString())
    else then(new UmbraError("E633", "The body is not UTF-8 text. Send it as UTF-8."), "")
  }
  const take = (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes > maxBytes) end(tooLarge(maxBytes))
    else chunks.push(chunk)
  }
  const whole = () => end(null)
  const broken = () => end(new UmbraError("E633", "The body did not arrive whole."))
  payload.on("data", take).on("end", whole).on("error", broken)
}

function tooLarge(maxBytes: number): UmbraError {
  return new UmbraError(
    "E635",
    `The body is larger than ${maxBytes} bytes, the most that is taken from you here (max_body_bytes).`,
  )
}

function tooMuchYaml(maxBytes: number): UmbraError {
  return new UmbraError(
    "E635",
    `YAML of more than ${maxBytes} bytes is not accepted over HTTP. Send JSON (Content-Type: application/json); \`umbra push\` converts it.`,
  )
}

/** Brackets open at once, those in texts aside. */
function depthOf(json: string): number {
  let [depth, deepest, inText] = [0, 0, false]
  for (let i = 0; i < json.length; i++) {
    const code = json.charCodeAt(i)
    if (inText) {
      if (code === BACKSLASH) i++
      else if (code === QUOTE) inText = false
    } else if (code === QUOTE) inText = true
    else if (code === BRACE || code === BRACKET) deepest = Math.max(deepest, ++depth)
    else if (code === BRACE + 2 || code === BRACKET + 2) depth--
  }
  return deepest
}

const [QUOTE, BACKSLASH, BRACKET, BRACE] = [34, 92, 91, 123]
