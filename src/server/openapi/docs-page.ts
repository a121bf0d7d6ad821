/** The OpenAPI document as a readable page: plain HTML, without scripts or external resources. */
import {
  type ApiDocument,
  type Content,
  type Operation,
  type Parameter,
  resolved,
  type Schema,
  type Schemas,
} from "./document.ts"

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
    entries: entriesOf(document).filter(({ operation }) => operation.tags?.includes(tag.name)),
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
<h2>Schemas</h2><p>What others refer to.</p>
${Object.entries(schemas)
  .map(([name, schema]) => details(name, schema))
  .join("\n")}
</body></html>
`
}

function entriesOf({ paths }: ApiDocument): Entry[] {
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
  const about = [description, kindOf(resolved(schema, schemas))].filter(part => part !== "").join(" ")
  return `<tr><td><code>${text(name)}</code></td><td>${text(where)}${required ? ", required" : ""}</td><td>${prose(about)}</td></tr>`
}

/** "Text.", "Whole number, 1 to 1000, default 50." */
function kindOf(schema: Schema | undefined): string {
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
