import { type ErrorCode, errorTable } from "../../errors.ts"

/** What may be wrong with a workflow that is sent here. */
export const documentErrors: readonly ErrorCode[] = [
  ...(Object.keys(errorTable) as ErrorCode[]).filter(code => code.startsWith("E1")),
  "E426",
  "E502",
  "E635",
  "E636",
]
