/**
 * Writes generated files: the SQL module from the .sql files, the editor's JSON Schema from the definition's
 * schema. Run by the build; a file is written only when its content changes, so that watchers and incremental
 * builds are not triggered.
 */
import { readFolder, writeIfChanged } from "./generate/files.ts"
import { sqlModule } from "./generate/sql.ts"

const postgres = new URL("../src/journal/postgres/", import.meta.url)

const module = sqlModule({
  statements: await readFolder(new URL("statements/", postgres), ".sql"),
  migrations: await readFolder(new URL("migrations/", postgres), ".sql"),
})
await writeIfChanged(new URL("sql.generated.ts", postgres), module)

// Imported only now: whatever the sources import, the generated module exists and is current.
const { workflowJsonSchema } = await import("../src/definition/index.ts")
const schema = new URL("../schema/workflow.schema.json", import.meta.url)
await writeIfChanged(schema, `${JSON.stringify(workflowJsonSchema(), null, 2)}\n`)
