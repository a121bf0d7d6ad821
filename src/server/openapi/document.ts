/**
 * The OpenAPI 3.1 document, built from the routes' own schemas: every operation has a name, the scope that it needs, and
 * examples of its request and its answers.
 */
import swagger from "@fastify/swagger"
import { jsonSchemaTransform, jsonSchemaTransformObject } from "fastify-type-provider-zod"
import { type ErrorCode, errorTable } from "../../errors.ts"
import type { App } from "../route-context.ts"

const workflowExample = {
  name: "order",
  nodes: [
    { id: "price", handler: "transform", config: { value: "{{ input.amount * 2 }}" } },
    {
      id: "result",
      handler: "output",
      config: { value: "{{ nodes.price.output }}" },
      dependencies: ["price"],
    },
  ],
}

const yamlExample = `name: order
nodes:
  - id: price
    handler: transform
    config:
      value: "{{ input.amount * 2 }}"
`

export async function publish(app: App, version: string): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: "3.1.0",
      info: {
        title: "Umbra",
        version,
        description:
          "Durable workflows. Errors are RFC 9457 problem documents with a code of docs/reference/errors.md.",
      },
      components: {
        securitySchemes: {
          token: {
            type: "http",
            scheme: "bearer",
            description: "An API token or a JWT with the scope that the operation names, or with admin.",
          },
        },
      },
      tags: [
        { name: "workflows", description: "Definitions, their versions and aliases" },
        { name: "jobs", description: "Submit, query and control jobs" },
        { name: "artifacts", description: "Files and other large content that jobs refer to" },
        { name: "pipelines", description: "Lineage and dead letters of jobs that run pipelines" },
        { name: "tokens", description: "API tokens and their scopes" },
        { name: "sessions", description: "Logins of people in browsers" },
        { name: "schedules", description: "Workflows that start at times" },
        { name: "providers", description: "External services and their webhooks" },
        { name: "server", description: "Health, metrics and workers of this process" },
      ],
    },
    transform: transformed,
    transformObject: document => completed(jsonSchemaTransformObject(document) as ApiDocument) as never,
  })
}

type Transform = typeof jsonSchemaTransform

const transformed: Transform = input => {
  const { schema, url } = jsonSchemaTransform(input)
  const { method, config } = input.route
  const scope = config?.scope ?? "admin"
  return {
    url,
    schema: {
      ...schema,
      operationId: [[method].flat()[0]!.toLowerCase(), ...url.split(/[^A-Za-z]+/)].filter(Boolean).join("_"),
      security: scope === "none" ? [] : [{ token: [scope] }],
    },
  }
}

export interface Content {
  schema?: Schema
  example?: unknown
  examples?: Record<string, { readonly value: object }>
}

export interface Parameter {
  readonly name: string
  readonly in: string
  readonly required?: boolean
  readonly description?: string
  readonly schema?: Schema
}

export interface Operation {
  readonly operationId?: string
  readonly summary?: string
  readonly description?: string
  readonly tags?: readonly string[]
  readonly security?: readonly Readonly<Record<string, readonly string[]>>[]
  readonly parameters?: readonly Parameter[]
  requestBody?: { content?: Record<string, Content>; required?: boolean }
  responses?: Record<string, { description?: string; content?: Record<string, Content> }>
}

export interface ApiDocument {
  readonly info: { readonly title: string; readonly version: string; readonly description?: string }
  readonly tags?: readonly { readonly name: string; readonly description?: string }[]
  readonly paths?: Record<string, Record<string, Operation>>
  readonly components?: { readonly schemas?: Schemas }
}

function completed(document: ApiDocument): ApiDocument {
  for (const [path, content] of Object.entries(unparsedBodies)) {
    const operation = document.paths?.[path]?.post
    if (operation !== undefined) operation.requestBody = { required: true, content: structuredClone(content) }
  }
  const schemas = document.components?.schemas ?? {}
  for (const operation of Object.values(document.paths ?? {}).flatMap(methods => Object.values(methods))) {
    for (const [status, answer] of Object.entries(operation.responses ?? {})) {
      if (answer.description === "Default Response") answer.description = meanings[status] ?? "Success"
      const problem = answer.content?.["application/problem+json"]
      if (problem !== undefined) problem.examples = problemsIn(answer.description ?? "")
    }
    for (const content of collectContents(operation)) {
      const example = content.examples === undefined ? findExample(content.schema, schemas) : undefined
      if (example !== undefined) content.example ??= example
    }
  }
  return document
}

/** An example of each error that the description lists. */
function problemsIn(description: string): NonNullable<Content["examples"]> {
  const codes = (description.match(/\bE\d{3}\b/g) ?? []) as ErrorCode[]
  const value = (code: ErrorCode) => {
    const { title, status } = errorTable[code]
    return { type: `urn:umbra:error:${code}`, title, status, detail: "What is wrong, and what to do.", code }
  }
  return Object.fromEntries(codes.map(code => [code, { value: value(code) }]))
}

const meanings: Readonly<Record<string, string>> = {
  201: "Created and durable",
  202: "Accepted and durable",
  204: "Done",
  503: "Temporarily unavailable",
}

function collectContents({ requestBody, responses = {} }: Operation): Content[] {
  return [requestBody, ...Object.values(responses)].flatMap(part => Object.values(part?.content ?? {}))
}

const workflowBody = {
  "application/json": {
    schema: { type: "object", description: "Described by schema/workflow.schema.json." },
    example: workflowExample,
  },
  "application/yaml": { schema: { type: "string" }, example: yamlExample },
}

/**
 * What callers send where the server reads text, to report lines and columns; a stream, for uploads; or bytes, for
 * webhooks, since the signature covers them.
 */
const unparsedBodies: Readonly<Record<string, Record<string, Content>>> = {
  "/workflows": workflowBody,
  "/workflows/validate": workflowBody,
  "/artifacts": {
    "application/octet-stream": {
      schema: { type: "string", description: "The content, of any type." },
      example: "some bytes",
    },
  },
  "/webhooks/{provider}": {
    "application/json": {
      schema: { description: "The body that the provider sends, of any type." },
      example: { id: "op-17", status: "succeeded" },
    },
  },
}

/**
 * Builds a complete example for every request body and every successful answer of the OpenAPI document from the examples
 * of the schemas' parts. If a required part has no example, the whole has none, and a test fails.
 */

export interface Schema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly example?: unknown
  readonly examples?: readonly unknown[]
  readonly const?: unknown
  readonly enum?: readonly unknown[]
  readonly default?: unknown
  readonly minimum?: number
  readonly maximum?: number
  readonly items?: Schema
  readonly anyOf?: readonly Schema[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly description?: string
}

export type Schemas = Readonly<Record<string, Schema>>

/** `undefined`: there is no example. */
function findExample(given: Schema | undefined, schemas: Schemas): unknown {
  const schema = resolved(given, schemas)
  if (schema === undefined) return undefined
  if (schema.example !== undefined) return schema.example
  const own = schema.examples?.[0] ?? schema.const ?? schema.enum?.[0] ?? schema.default
  if (own !== undefined) return own
  if (schema.anyOf !== undefined)
    return schema.anyOf.map(option => findExample(option, schemas)).find(example => example !== undefined)
  return byType(schema, schemas)
}

function byType(schema: Schema, schemas: Schemas): unknown {
  if (Array.isArray(schema.type)) {
    const forms = schema.type.map((type: string) => byType({ ...schema, type }, schemas))
    return forms.find(example => example !== undefined)
  }
  switch (schema.type) {
    case "object":
      return objectExample(schema, schemas)
    case "array": {
      const entry = findExample(schema.items, schemas)
      return entry === undefined ? undefined : [entry]
    }
    case "integer":
    case "number":
      return schema.minimum !== undefined && schema.minimum > 0 ? schema.minimum : 0
    case "boolean":
      return false
    case "null":
      return null
    default:
      return undefined
  }
}

/** Resolves a reference. */
function resolved(schema: Schema | undefined, schemas: Schemas): Schema | undefined {
  if (schema?.$ref === undefined) return schema
  const { $ref, ...rest } = schema
  return { ...schemas[$ref.split("/").at(-1)!], ...rest }
}

function objectExample({ properties = {}, required = [] }: Schema, schemas: Schemas): unknown {
  const found: Record<string, unknown> = {}
  for (const [name, schema] of Object.entries(properties)) {
    // An optional field is shown if it has an example of its own.
    const example = required.includes(name) ? findExample(schema, schemas) : schema.example
    if (example !== undefined) found[name] = example
    else if (required.includes(name)) return undefined
  }
  return found
}

/** The OpenAPI document as a readable page: plain HTML, without scripts or external resources. */

interface Entry {
  readonly method: string
  readonly path: string
  readonly operation: Operation
}

export function docsPage(document: ApiDocument): string {
  const { title, version, description } = document.info
  const schemas = document.components?.schemas ?? {}
  const chapters = (document.tags ?? []).map(tag => ({
    ...tag,
    entries: listOperations(document).filter(({ operation }) => operation.tags?.includes(tag.name)),
  }))
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${text(title)} ${text(version)}</title><style>${style}</style></head>
<body><h1>${text(title)} ${text(version)}</h1><p>${text(description ?? "")} <a href="/openapi.json">openapi.json</a></p>
<nav>${chapters.map(({ name, entries }) => `<b>${text(name)}</b><ul>${entries.map(lineHtml).join("")}</ul>`).join("\n")}</nav>
${chapters
  .map(
    ({ name, description: about = "", entries }) => `<h2>${text(name)}</h2><p>${text(about)}</p>
${entries.map(entry => entryHtml(entry, schemas)).join("\n")}`,
  )
  .join("\n")}
<h2>Schemas</h2><p>Requests, responses and other schemas refer to these.</p>
${Object.entries(schemas)
  .map(([name, schema]) => details(name, schema))
  .join("\n")}
</body></html>
`
}

function listOperations({ paths }: ApiDocument): Entry[] {
  return Object.entries(paths ?? {}).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method, path, operation })),
  )
}

function lineHtml({ method, path, operation }: Entry): string {
  return `<li><a href="#${text(operation.operationId ?? "")}"><span class="${text(method)}">${text(method.toUpperCase())}</span> ${text(path)}</a> ${text(operation.summary ?? "")}</li>`
}

function entryHtml({ method, path, operation }: Entry, schemas: Schemas): string {
  const {
    operationId = "",
    summary = "",
    description,
    parameters = [],
    requestBody,
    responses = {},
  } = operation
  const bodies = Object.entries(requestBody?.content ?? {}).map(([type, content]) =>
    contentHtml(`Body, ${type}`, content, schemas),
  )
  const [good, bad] = [/^2|^503$/, /^[45]/].map(statuses =>
    Object.entries(responses).filter(([status]) => statuses.test(status)),
  ) as [[string, Answer][], [string, Answer][]]
  return `<section id="${text(operationId)}"><h3><span class="${text(method)}">${text(method.toUpperCase())}</span> <code>${text(path)}</code></h3>
<p>${text(summary)}. ${prose(description ?? "")} ${needs(operation)}</p>
${parameters.length === 0 ? "" : `<table>${parameters.map(parameter => parameterHtml(parameter, schemas)).join("")}</table>`}${bodies.join("")}
${good.map(answer => answerHtml(answer, schemas)).join("")}<p class="errors">${bad.map(errorsHtml).join(" ")}</p></section>`
}

type Answer = NonNullable<Operation["responses"]>[string]

function needs({ security = [] }: Operation): string {
  const scopes = security.flatMap(each => Object.values(each).flat())
  return scopes.length === 0 ? "<i>Needs no token.</i>" : `<i>Needs the scope ${text(scopes.join(", "))}.</i>`
}

function parameterHtml(
  { name, in: where, required, description = "", schema }: Parameter,
  schemas: Schemas,
): string {
  const about = [description, describeType(resolved(schema, schemas))].filter(part => part !== "").join(" ")
  return `<tr><td><code>${text(name)}</code></td><td>${text(where)}${required ? ", required" : ""}</td><td>${prose(about)}</td></tr>`
}

/** "Text.", "Whole number, 1 to 1000, default 50." */
function describeType(schema: Schema | undefined): string {
  if (schema === undefined) return ""
  const { type, enum: values, minimum, maximum, example, default: usual } = schema
  const kind = values?.map(String).join(" or ") ?? kinds[String(type)]
  if (kind === undefined) return example === undefined ? "" : `\`${example}\`.`
  const bounds =
    maximum === undefined
      ? minimum === undefined
        ? ""
        : `, from ${minimum}`
      : `, ${minimum ?? 0} to ${maximum}`
  const unless = usual === undefined ? "" : `, default ${usual}`
  const such = example === undefined || usual !== undefined ? "" : `, such as \`${example}\``
  return `${kind[0]!.toUpperCase()}${kind.slice(1)}${bounds}${unless}${such}.`
}

const kinds: Readonly<Record<string, string>> = { string: "text", integer: "whole number", number: "number" }

function answerHtml([status, { description = "", content }]: [string, Answer], schemas: Schemas): string {
  const [type, found] = Object.entries(content ?? {})[0] ?? []
  if (type === "application/problem+json") return ""
  const head = `${status}: ${description}`
  return found === undefined ? `<p><b>${text(head)}</b></p>` : contentHtml(head, found, schemas)
}

function contentHtml(title: string, { schema, example, examples }: Content, schemas: Schemas): string {
  const shown = example ?? Object.values(examples ?? {})[0]?.value
  const body = typeof shown === "string" ? shown : JSON.stringify(shown, null, 2)
  return `<p><b>${text(title)}</b></p>${body === undefined ? "" : `<pre>${text(body)}</pre>`}${details("Schema", whole(schema, schemas))}`
}

function errorsHtml([status, { content }]: [string, Answer]): string {
  const codes = Object.entries(content?.["application/problem+json"]?.examples ?? {})
  return codes
    .map(([code, { value }]) => [code, (value as { title: string }).title] as const)
    .map(([code, title]) => `<span><b>${text(status)}</b> ${text(code)} ${text(title)}</span>`)
    .join(" ")
}

/** The schema with the schemas that it refers to. */
function whole(schema: Schema | undefined, schemas: Schemas): unknown {
  const { examples: _, example: __, ...rest } = resolved(schema, schemas) ?? {}
  return rest
}

function details(title: string, content: unknown): string {
  return `<details><summary>${text(title)}</summary><pre>${text(JSON.stringify(content, null, 2) ?? "")}</pre></details>`
}

const marks: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" }

function text(raw: string): string {
  return raw.replace(/[&<>"]/g, mark => marks[mark]!)
}

function prose(raw: string): string {
  return text(raw).replace(/`([^`]+)`/g, "<code>$1</code>")
}

const style = `body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
h2{margin-top:3rem;text-transform:capitalize}section{border-top:1px solid #ddd;padding:.5rem 0}
nav{columns:2 22rem;font-size:.85rem}nav b{text-transform:capitalize}nav ul{list-style:none;margin:0 0 1rem;padding:0}nav li{break-inside:avoid}
span.get,span.post,span.put,span.delete{display:inline-block;min-width:4rem;font-weight:600;color:#1971c2}
span.delete{color:#c92a2a}span.post,span.put{color:#2b8a3e}a{color:inherit;overflow-wrap:anywhere}h3,p{overflow-wrap:anywhere}td:last-child{overflow-wrap:anywhere;min-width:10rem}table{display:block;overflow-x:auto}
td{vertical-align:top;padding:.1rem .8rem .1rem 0}pre{background:#f6f6f6;padding:.7rem;overflow:auto;font-size:.85rem}
code{font-size:.95em}summary{font-size:.85rem;color:#666}.errors{font-size:.85rem;color:#555}.errors span{margin-right:.8rem}`
