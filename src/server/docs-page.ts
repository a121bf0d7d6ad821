/** The OpenAPI document as a page to read: plain HTML, no script, nothing from elsewhere. */
interface Operation {
  readonly summary?: string
  readonly description?: string
  readonly tags?: readonly string[]
  readonly parameters?: readonly {
    name: string
    in: string
    required?: boolean
    description?: string
    schema?: unknown
  }[]
  readonly requestBody?: {
    readonly content?: Readonly<Record<string, { schema?: unknown; example?: unknown }>>
  }
  readonly responses?: Readonly<
    Record<string, { description?: string; content?: Readonly<Record<string, { schema?: unknown }>> }>
  >
}

interface ApiDocument {
  readonly info: { readonly title: string; readonly version: string; readonly description?: string }
  readonly tags?: readonly { readonly name: string; readonly description?: string }[]
  readonly paths?: unknown
  readonly components?: { readonly schemas?: unknown }
}

interface Entry {
  readonly method: string
  readonly path: string
  readonly operation: Operation
}

export function docsPage(found: unknown): string {
  const document = found as ApiDocument
  const { title, version, description } = document.info
  const entries = entriesOf(document)
  const sections = (document.tags ?? []).map(
    tag => `<h2>${text(tag.name)}</h2><p>${text(tag.description ?? "")}</p>
${entries
  .filter(({ operation }) => operation.tags?.includes(tag.name))
  .map(entryHtml)
  .join("\n")}`,
  )
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${text(title)} ${text(version)}</title><style>${style}</style></head>
<body><h1>${text(title)} ${text(version)}</h1><p>${text(description ?? "")} <a href="/openapi.json">openapi.json</a></p>
${sections.join("\n")}
<h2>Schemas</h2>${details("All named schemas", document.components?.schemas)}
</body></html>
`
}

function entriesOf({ paths }: ApiDocument): Entry[] {
  return Object.entries((paths ?? {}) as Record<string, Record<string, Operation>>).flatMap(
    ([path, methods]) => Object.entries(methods).map(([method, operation]) => ({ method, path, operation })),
  )
}

function entryHtml({ method, path, operation }: Entry): string {
  const { summary = "", description, parameters = [], requestBody, responses = {} } = operation
  const rows = parameters.map(
    ({ name, in: where, required, description: about = "", schema }) =>
      `<tr><td><code>${text(name)}</code></td><td>${text(where)}${required ? ", required" : ""}</td><td>${text(about)} <code>${text(JSON.stringify(schema))}</code></td></tr>`,
  )
  const bodies = Object.entries(requestBody?.content ?? {}).map(([type, { schema, example }]) =>
    details(`Body ${type}`, example === undefined ? schema : { example, schema }),
  )
  const results = Object.entries(responses).map(([status, { description: about = "", content }]) => {
    const isProblem = content?.["application/problem+json"] !== undefined
    const schema = isProblem ? undefined : Object.values(content ?? {})[0]?.schema
    const line = `<b>${text(status)}</b> ${text(about === "Default Response" ? "" : about)}`
    return `<li>${line}${schema === undefined ? "" : details("schema", schema)}</li>`
  })
  return `<section><h3><span class="${text(method)}">${text(method.toUpperCase())}</span> <code>${text(path)}</code></h3>
<p>${text(summary)}. ${text(description ?? "")}</p>
${rows.length === 0 ? "" : `<table>${rows.join("")}</table>`}${bodies.join("")}<ul>${results.join("")}</ul></section>`
}

function details(title: string, content: unknown): string {
  return `<details><summary>${text(title)}</summary><pre>${text(JSON.stringify(content, null, 2) ?? "")}</pre></details>`
}

const marks: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" }

function text(raw: string): string {
  return raw.replace(/[&<>"]/g, mark => marks[mark]!)
}

const style = `body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
h2{margin-top:3rem;text-transform:capitalize}section{border-top:1px solid #ddd;padding:.5rem 0}
h3 span{display:inline-block;min-width:4.5rem;color:#1971c2}h3 .delete{color:#c92a2a}h3 .post,h3 .put{color:#2b8a3e}
td{vertical-align:top;padding:.1rem .8rem .1rem 0}pre{background:#f6f6f6;padding:1rem;overflow:auto}code{font-size:.95em}`
