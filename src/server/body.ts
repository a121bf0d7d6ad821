/** What bodies may be: JSON, and for workflows also YAML, both as text. Never a form: browsers send those unasked. */
import type { FastifyInstance } from "fastify"
import { UmbraError } from "../errors.ts"

declare module "fastify" {
  interface FastifyContextConfig {
    /** The body is a workflow: its text goes to the route as it is, so that problems have lines and columns. */
    isDocument?: boolean
  }
}

/** Deeper than any data is, and far from where recursion ends. */
const DEEPEST = 200

export function takeBodies(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser("error", "error")
  app.removeAllContentTypeParsers()
  app.addContentTypeParser("application/json", { parseAs: "string" }, (request, body: string, done) => {
    if (request.routeOptions.config.isDocument) return done(null, body)
    if (body === "") return done(null, undefined)
    if (depthOf(body) > DEEPEST)
      return done(new UmbraError("E633", `The body is nested deeper than ${DEEPEST} levels.`))
    parse(request, body, done)
  })
  const yaml = ["application/yaml", "application/x-yaml", "text/yaml"]
  app.addContentTypeParser(yaml, { parseAs: "string" }, (request, body: string, done) => {
    if (request.routeOptions.config.isDocument) return done(null, body)
    done(new UmbraError("E636", "Only workflows are taken as YAML. Send application/json."))
  })
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
