/**
 * Request bodies: JSON, and for workflows also YAML, both as text. Never a form: browsers send forms across origins
 * without asking. The server reads bodies itself, since the size limit depends on the caller's token: it never buffers
 * more than that.
 */
import { isUtf8 } from "node:buffer"
import type { IncomingMessage } from "node:http"
import type { FastifyInstance, FastifyRequest } from "fastify"
import { yamlInOnePiece } from "../../definition/index.ts"
import { UmbraError } from "../../errors.ts"

declare module "fastify" {
  interface FastifyContextConfig {
    /** The body is a workflow: the route gets its text unparsed, so that problems have lines and columns. */
    isDocument?: boolean
  }
}

/** Deeper than real data, and far below the depth at which recursion fails. */
const DEEPEST = 200
/**
 * `JSON.parse` and the steps after it process a body without yielding, so the number of its values is bounded, not only
 * its bytes: this many take up to 50 ms of a usual processor, however they are arranged (decision 36). Documents need less
 * work without yielding and may have more. Where bodies may be larger than 4 MiB, the bound grows in proportion.
 */
const MOST_VALUES = 200_000
const MOST_PARTS_OF_DOCUMENTS = 270_000
const USUAL_BYTES = 4 * 1024 * 1024
/** Weight of a key that did not occur before. For comparison: a number is 1, a text 2, a list or a mapping 3. */
const NEW_KEY_VALUES = 12
/** Weight of a template in a document, which is compiled; its length in characters is added. */
const TEMPLATE_VALUES = 27
/** Entries of these are compiled one by one, and the event loop runs in between: each entry has its own bound. */
const ONE_BY_ONE = new Set(['"nodes', '"routes'])

/** `maxBytes`: for callers without a limit of their own. */
export function takeBodies(app: FastifyInstance, maxBytes: number): void {
  const parse = app.getDefaultJsonParser("error", "error")
  const bodyLimit = (request: FastifyRequest) => request.caller?.limits?.maxBodyBytes ?? maxBytes
  const read = (request: FastifyRequest, payload: IncomingMessage, then: Then) =>
    readText(payload, { maxBytes: bodyLimit(request), tooLarge }, then)
  app.removeAllContentTypeParsers()
  app.addContentTypeParser("application/json", (request, payload, done) =>
    read(request, payload, (error, body) => {
      if (error !== null) return done(error)
      const isDocument = request.route.isDocument === true
      if (body === "" && !isDocument) return done(null, undefined)
      // So short a text exceeds no bound.
      if (body.length <= DEEPEST) return isDocument ? done(null, body) : parse(request, body, done)
      const ofUsual = isDocument ? MOST_PARTS_OF_DOCUMENTS : MOST_VALUES
      const mostValues = Math.ceil(ofUsual * Math.max(1, bodyLimit(request) / USUAL_BYTES))
      const { depth, values } = measure(body, mostValues, isDocument)
      if (values > mostValues) return done(tooManyValues(mostValues))
      if (isDocument) return done(null, body)
      if (depth > DEEPEST)
        return done(new UmbraError("E633", `Request body is nested deeper than ${DEEPEST} levels.`))
      parse(request, body, done)
    }),
  )
  const yaml = ["application/yaml", "application/x-yaml", "text/yaml"]
  app.addContentTypeParser(yaml, (request, payload, done) => {
    if (request.route.isDocument) {
      const limit = bodyLimit(request)
      const limits =
        limit <= yamlInOnePiece
          ? { maxBytes: limit, tooLarge }
          : { maxBytes: yamlInOnePiece, tooLarge: tooMuchYaml }
      return readText(payload, limits, (error, body) => done(error, body))
    }
    done(new UmbraError("E636", "YAML is accepted for workflows only. Send application/json."))
  })
}

type Then = (error: Error | null, text: string) => void

interface BodyLimit {
  readonly maxBytes: number
  readonly tooLarge: (maxBytes: number) => UmbraError
}

/** A body whose Content-Length exceeds the limit is not read at all; otherwise it is read up to the limit. */
function readText(payload: IncomingMessage, { maxBytes, tooLarge }: BodyLimit, then: Then): void {
  if (Number(payload.headers["content-length"]) > maxBytes) {
    then(tooLarge(maxBytes), "")
    return
  }
  const chunks: Buffer[] = []
  let bytes = 0
  let hasEnded = false
  const end = (error: Error | null) => {
    if (hasEnded) return
    hasEnded = true
    if (error !== null) {
      payload.off("data", take).off("end", whole).off("error", broken)
      return then(error, "")
    }
    const body = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, bytes)
    // Decoding invalid UTF-8 would store a different text than the one that was sent.
    if (isUtf8(body)) then(null, body.toString())
    else then(new UmbraError("E633", "Request body is not UTF-8 text. Send it as UTF-8."), "")
  }
  const take = (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes > maxBytes) end(tooLarge(maxBytes))
    else chunks.push(chunk)
  }
  const whole = () => end(null)
  const broken = () => end(new UmbraError("E633", "Request body is incomplete."))
  payload.on("data", take).on("end", whole).on("error", broken)
}

function tooLarge(maxBytes: number): UmbraError {
  return new UmbraError("E635", `Request body exceeds your limit of ${maxBytes} bytes (max_body_bytes).`)
}

function tooMuchYaml(maxBytes: number): UmbraError {
  return new UmbraError(
    "E635",
    `YAML of more than ${maxBytes} bytes is not accepted over HTTP. Send JSON (Content-Type: application/json); \`umbra push\` converts YAML to JSON.`,
  )
}

function tooManyValues(most: number): UmbraError {
  return new UmbraError(
    "E635",
    `Request body exceeds the limit of ${most} values per request. A number counts 1, a text 2, a list or mapping 3, a new key 12; a template in a workflow (counted per node) 27 plus its length. Send several requests, or lists instead of mappings.`,
  )
}

/**
 * Counts open brackets and values of the text, and stops when there are more than `most`. The text need not be JSON. One
 * pass, 10 ms for 4 MiB.
 */
function measure(
  json: string,
  most: number,
  isDocument: boolean,
): { readonly depth: number; readonly values: number } {
  const keys = new Set<string>()
  let [depth, deepest, values] = [0, 0, 0]
  // The text that ended last may be a key.
  let [textAt, textEnd] = [0, 0]
  let [templates, isOneByOne] = [0, false]
  for (let i = 0; i < json.length && values + templates <= most; i++) {
    const code = json.charCodeAt(i)
    if (code === QUOTE) {
      textAt = i
      i = endOfText(json, i)
      textEnd = i
      values++
      if (isDocument && firstBrace !== -1) templates += templateParts(json, firstBrace, textEnd)
    } else if (code === COMMA) values++
    else if (code === COLON) {
      const known = keys.size
      const key = json.slice(textAt, textEnd)
      keys.add(key)
      if (depth === 1) isOneByOne = ONE_BY_ONE.has(key)
      values += (keys.size === known ? 0 : NEW_KEY_VALUES) - 1
    } else if (code === BRACE || code === BRACKET) {
      deepest = Math.max(deepest, ++depth)
      values += 2
    } else if (code === BRACE + 2 || code === BRACKET + 2) {
      depth--
      if (depth === 2 && isOneByOne) templates = 0
    }
  }
  return { depth: deepest, values: values + templates }
}

/** Weight of the templates in a text: what is between `{{` or `{%` and its end. */
function templateParts(json: string, start: number, end: number): number {
  let [depth, templates, characters] = [0, 0, 0]
  for (let i = start; i < end; i++) {
    const code = json.charCodeAt(i)
    if (depth > 0) {
      const from = i
      if (code === APOSTROPHE) i = closing("'", json, i, end)
      else if (code === BACKSLASH)
        i = json.charCodeAt(i + 1) === QUOTE ? closing('\\"', json, i + 1, end) : i + 1
      else if (code === BRACE) depth++
      else if (code === BRACE + 2) depth--
      characters += i - from + 1
    } else if (code === BRACE) {
      const next = json.charCodeAt(i + 1)
      if (next !== BRACE && next !== PERCENT) continue
      depth = next === BRACE ? 2 : 1
      templates++
      i++
    }
  }
  return templates * TEMPLATE_VALUES + characters
}

function closing(quote: string, json: string, start: number, end: number): number {
  for (let i = start + 1; i < end; i++) if (json.startsWith(quote, i)) return i + quote.length - 1
  return end
}

/** In the text that ended last; -1: it has none. */
let firstBrace = -1

/** Index of the closing quote; the end of the text if there is none. */
function endOfText(json: string, start: number): number {
  firstBrace = -1
  for (let i = start + 1; i < json.length; i++) {
    const code = json.charCodeAt(i)
    if (code === BACKSLASH) i++
    else if (code === QUOTE) return i
    else if (code === BRACE && firstBrace === -1) firstBrace = i
  }
  return json.length
}

const [QUOTE, COMMA, COLON, BACKSLASH, BRACKET, BRACE] = [34, 44, 58, 92, 91, 123]
const [PERCENT, APOSTROPHE] = [37, 39]
