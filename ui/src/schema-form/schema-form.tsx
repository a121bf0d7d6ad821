/** A form made from a JSON Schema. It shows problems that the server reports at the fields that they concern. */
import { useId, useMemo, useState } from "react"
import type { Json, JsonObject } from "../../../src/core/index.ts"
import { Icon } from "../shell/icons.tsx"
import { ChoiceField, JsonField, NumberField, Problems, SwitchField, TextField } from "./fields.tsx"
import {
  type FieldProblem,
  findVariant,
  formatHelp,
  initialValue,
  isObject,
  type Path,
  pathText,
  type Schema,
  type Shape,
  toShape,
} from "./schema.ts"

/** What every field gets. `value` undefined: none was entered. */
export interface FieldParts {
  readonly id: string
  readonly label: string
  readonly path: Path
  readonly pathText: string
  readonly isRequired: boolean
  readonly value: Json | undefined
  readonly onChange: (value: Json | undefined) => void
  /** Of this value, without those of values inside. */
  readonly problems: readonly string[]
  readonly form: Form
}

interface Form {
  readonly root: Schema
  readonly id: string
  readonly problems: readonly FieldProblem[]
}

interface SchemaFormProps {
  readonly schema: Schema
  readonly value: Json | undefined
  readonly onChange: (value: Json | undefined) => void
  readonly problems?: readonly FieldProblem[]
  /** What paths of problems begin with; also the label of a value that is not an object. */
  readonly name?: string
}

const none: readonly FieldProblem[] = []

export function SchemaForm({ schema, value, onChange, problems = none, name = "input" }: SchemaFormProps) {
  const id = useId()
  const form = useMemo(() => ({ root: schema, id, problems }), [schema, id, problems])
  const shape = toShape(schema, schema)
  const parts = fieldParts(form, { path: [name], label: name, schema, isRequired: true, value, onChange })
  return (
    <div className="sform">
      <div className="sgrid">
        {shape.kind === "object" ? (
          <ObjectBody shape={shape} {...parts} />
        ) : (
          <AnyField schema={schema} {...parts} />
        )}
      </div>
    </div>
  )
}

interface Placed {
  readonly path: Path
  readonly label: string
  readonly schema: Schema
  readonly isRequired: boolean
  readonly value: Json | undefined
  readonly onChange: (value: Json | undefined) => void
}

function fieldParts(form: Form, { schema, ...placed }: Placed): FieldParts {
  const text = pathText(placed.path)
  const isLeaf = toShape(schema, form.root).kind === "json"
  const problems = form.problems.flatMap(({ path, message }) => {
    if (path === text) return [message]
    return isLeaf && isInside(path, text) ? [`${path}: ${message}`] : []
  })
  return { ...placed, form, pathText: text, problems, id: `${form.id}-${text}` }
}

function isInside(path: string, parent: string): boolean {
  return path.startsWith(`${parent}.`) || path.startsWith(`${parent}[`)
}

function AnyField({ schema, ...parts }: FieldParts & { readonly schema: Schema }) {
  const shape = toShape(schema, parts.form.root)
  switch (shape.kind) {
    case "string":
      return <TextField shape={shape} {...parts} />
    case "number":
      return <NumberField shape={shape} {...parts} />
    case "boolean":
      return <SwitchField shape={shape} {...parts} />
    case "choice":
      return <ChoiceField shape={shape} {...parts} />
    case "json":
      return <JsonField shape={shape} {...parts} />
    case "object":
      return (
        <Group shape={shape} schema={schema} {...parts}>
          <ObjectBody shape={shape} {...parts} />
        </Group>
      )
    case "list":
      return (
        <Group shape={shape} schema={schema} {...parts}>
          <ListBody shape={shape} {...parts} />
        </Group>
      )
    case "variants":
      return (
        <Group shape={shape} schema={schema} {...parts}>
          <VariantsBody shape={shape} {...parts} />
        </Group>
      )
  }
}

/** An object, a list, or one of several forms. What is optional and absent is a button. */
function Group({
  shape,
  schema,
  children,
  ...parts
}: FieldParts & { readonly shape: Shape; readonly schema: Schema; readonly children: React.ReactNode }) {
  const { id, label, isRequired, value, form, problems } = parts
  const help = formatHelp(shape)
  const isAbsent = value === undefined
  const begin = () => parts.onChange(initialValue(withoutPreset(schema), form.root) ?? null)
  return (
    <fieldset className="sf wide grp" data-path={parts.pathText} aria-describedby={`${id}-problem`}>
      <legend>
        {label}
        {isRequired && <span className="dim"> required</span>}
      </legend>
      {isAbsent ? (
        <button className="btn sm add" type="button" onClick={begin}>
          <Icon name="plus" />
          Add {label}
        </button>
      ) : (
        !isRequired && (
          <button className="btn ghost sm add" type="button" onClick={() => parts.onChange(undefined)}>
            Remove<span className="sr"> {label}</span>
          </button>
        )
      )}
      {help !== "" && <p className="help">{help}</p>}
      <Problems id={`${id}-problem`} problems={problems} />
      {!isAbsent && children}
    </fieldset>
  )
}

/** An added object shows its fields, also if its default is empty. */
function withoutPreset({ default: _, ...schema }: Schema): Schema {
  return schema
}

function ObjectBody({
  shape,
  ...parts
}: FieldParts & { readonly shape: Extract<Shape, { kind: "object" }> }) {
  const { form, path, value, onChange } = parts
  const own: JsonObject = isObject(value) ? value : {}
  const known = new Set(shape.properties.map(({ key }) => key))
  const unknown = Object.keys(own).filter(key => !known.has(key))
  const astray = form.problems.filter(problem =>
    unknown.some(key => {
      const text = pathText([...path, key])
      return problem.path === text || isInside(problem.path, text)
    }),
  )
  return (
    <div className="sgrid">
      {path.length === 1 && <Problems id={`${parts.id}-whole`} problems={parts.problems} />}
      {shape.properties.map(({ key, schema, isRequired }) => (
        <AnyField
          key={key}
          schema={schema}
          {...fieldParts(form, {
            ...{ path: [...path, key], label: key, schema, isRequired, value: own[key] },
            onChange: next => onChange(withKey(own, key, next)),
          })}
        />
      ))}
      {unknown.length > 0 && (
        <div className="sf wide">
          <p className="help">
            Other keys, as JSON only: <span className="mono">{unknown.join(", ")}</span>
          </p>
          <Problems
            id={`${parts.id}-other`}
            problems={astray.map(problem => `${problem.path}: ${problem.message}`)}
          />
        </div>
      )}
    </div>
  )
}

function withKey(object: JsonObject, key: string, value: Json | undefined): JsonObject {
  if (value !== undefined) return { ...object, [key]: value }
  const { [key]: _, ...rest } = object
  return rest
}

function ListBody({ shape, ...parts }: FieldParts & { readonly shape: Extract<Shape, { kind: "list" }> }) {
  const { form, path, label, onChange } = parts
  const list = Array.isArray(parts.value) ? (parts.value as readonly Json[]) : []
  const add = () =>
    onChange([...list, initialValue(shape.items, form.root) ?? emptyValue(toShape(shape.items, form.root))])
  return (
    <>
      <ol className="slist">
        {list.map((item, n) => (
          <li key={n}>
            <AnyField
              schema={shape.items}
              {...fieldParts(form, {
                ...{ path: [...path, n], label: `${label} ${n + 1}`, schema: shape.items, isRequired: true },
                value: item,
                onChange: next =>
                  onChange(list.with(n, next ?? emptyValue(toShape(shape.items, form.root))) as Json),
              })}
            />
            <button
              className="btn ghost sm icon-only"
              type="button"
              aria-label={`Remove ${label} ${n + 1}`}
              onClick={() => onChange(list.toSpliced(n, 1) as Json)}
            >
              <Icon name="close" />
            </button>
          </li>
        ))}
      </ol>
      <button className="btn sm" type="button" onClick={add}>
        <Icon name="plus" />
        Add entry<span className="sr"> to {label}</span>
      </button>
    </>
  )
}

/** A list has no entries without a value. */
function emptyValue({ kind }: Shape): Json {
  return kind === "string" ? "" : null
}

function VariantsBody({
  shape,
  ...parts
}: FieldParts & { readonly shape: Extract<Shape, { kind: "variants" }> }) {
  const { form, value, onChange } = parts
  const [picked, setPicked] = useState<number | null>(null)
  const current = picked ?? findVariant(shape.variants, value, form.root)
  const { schema } = shape.variants[current]!
  return (
    <div className="sgrid">
      <div className="sf">
        <label htmlFor={`${parts.id}-form`}>Form of {parts.label}</label>
        <select
          className="in"
          id={`${parts.id}-form`}
          value={current}
          onChange={event => {
            const next = Number(event.target.value)
            setPicked(next)
            onChange(initialValue(shape.variants[next]!.schema, form.root) ?? null)
          }}
        >
          {shape.variants.map(({ label }, n) => (
            <option key={`${n} ${label}`} value={n}>
              {label}
            </option>
          ))}
        </select>
      </div>
      <VariantField key={current} schema={schema} {...parts} />
    </div>
  )
}

function VariantField({ schema, ...parts }: FieldParts & { readonly schema: Schema }) {
  const shape = toShape(schema, parts.form.root)
  if (shape.kind === "object") return <ObjectBody shape={shape} {...parts} />
  return (
    <AnyField
      schema={schema}
      {...parts}
      // A null represents a value that was not entered yet.
      value={parts.value === null && shape.kind !== "json" ? undefined : parts.value}
      onChange={next => parts.onChange(next ?? null)}
    />
  )
}
