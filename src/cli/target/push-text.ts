/** A server accepts only short YAML. Longer documents are parsed here, in the command's process, and sent as JSON. */
import { UmbraClientError } from "../../client/index.ts"
import type { Workflows } from "../../client/workflows.ts"
import { parseDocument, yamlInOnePiece } from "../../definition/index.ts"
import { invalidWorkflow, type Locate, type Problem, parsePath } from "../../definition/problem.ts"
import type { Definition } from "../../definition/typed/builder.ts"

export async function pushText(workflows: Workflows, text: string): ReturnType<Workflows["push"]> {
  if (Buffer.byteLength(text) <= yamlInOnePiece) return workflows.push(text)
  const { format, value, problems, locate } = parseDocument(text)
  if (format === "json") return workflows.push(text)
  if (value === undefined || problems.length > 0) throw invalidWorkflow(problems)
  return workflows.push(value as unknown as Definition).catch((error: unknown) => {
    throw error instanceof UmbraClientError ? located(error, locate) : error
  })
}

/** The server's lines and columns would refer to the JSON that was sent. */
function located(error: UmbraClientError, locate: Locate): UmbraClientError {
  const problems = (error.problems as readonly Problem[]).map(({ line: _, column: __, ...problem }) => ({
    ...problem,
    ...(typeof problem.path === "string" ? locate(parsePath(problem.path)) : {}),
  }))
  return new UmbraClientError(error.message, { ...error, problems })
}
