/** The interpreter of statements: appends text to an output. */
import type { Json } from "../../core/json.ts"
import type { Body, Expression, For, SetBlock, Statement, Target } from "../parse/ast.ts"
import { cannot, type Run } from "../run.ts"
import { applyTo, evaluate, evaluateData, evaluateText, holds } from "./evaluate.ts"
import { Frame } from "./lookup.ts"
import { characters, data, isList, Loop, Missing, Namespace, sequence, type Value } from "./values.ts"

/** An iteration creates and fills a frame, which takes as long as this many other steps. */
const ITERATION = 8

export interface Output {
  text: string
}

export function execute(run: Run, body: Body, frame: Frame, output: Output): void {
  for (const statement of body) executeOne(run, statement, frame, output)
}

function executeOne(run: Run, statement: Statement, frame: Frame, output: Output): void {
  run.step()
  switch (statement.kind) {
    case "text":
      append(run, output, statement.text)
      break
    case "output":
      append(run, output, encoded(run, statement.expression, evaluateText(run, statement.expression, frame)))
      break
    case "if": {
      const branch = statement.branches.find(({ test }) => holds(run, test, frame))
      execute(run, branch?.body ?? statement.otherwise ?? [], frame, output)
      break
    }
    case "for":
      repeat(run, statement, frame, output)
      break
    case "set":
      assign(run, statement.target, evaluate(run, statement.value, frame), frame)
      break
    case "set-block":
      assign(run, statement.target, blockValue(run, statement, frame), frame)
      break
  }
}

/** Constants and plain secrets belong to the author of the template, so they are printed unchanged. */
function encoded({ encode }: Run, expression: Expression, text: string): string {
  if (encode === null || expression.kind === "constant" || isSecret(expression)) return text
  return encode(text, expression.kind === "apply" ? expression.title : null)
}

function isSecret(expression: Expression): boolean {
  let root = expression
  while (root.kind === "member" || root.kind === "item") root = root.object
  return root !== expression && root.kind === "name" && root.name === "secrets"
}

function append(run: Run, output: Output, text: string): void {
  run.text(text.length)
  output.text += text
}

function repeat(run: Run, statement: For, frame: Frame, output: Output): void {
  const { target, filter, body } = statement
  const all = sequence(run, evaluateData(run, statement.sequence, frame))
  const items =
    filter === null ? all : all.filter(item => holds(run, filter, createScope(run, target, item, frame)))
  if (items.length === 0) {
    if (statement.otherwise !== null) execute(run, statement.otherwise, frame, output)
    return
  }
  const loop = new Loop(items)
  for (let index = 0; index < items.length; index++) {
    run.step(ITERATION)
    loop.index0 = index
    const inner = createScope(run, target, items[index] as Json, frame)
    inner.set("loop", loop)
    execute(run, body, inner, output)
  }
}

function createScope(run: Run, target: Target, item: Json, frame: Frame): Frame {
  const inner = new Frame(frame)
  assign(run, target, item, inner)
  return inner
}

function assign(run: Run, target: Target, value: Value, frame: Frame): void {
  if (target.kind === "one") frame.set(target.name, value)
  else if (target.kind === "many") unpack(run, target.targets, data(value), frame)
  else {
    const namespace = frame.get(target.name)
    if (!(namespace instanceof Namespace)) {
      throw cannot(`"${target.name}" is not a namespace, so its fields cannot be set; see namespace()`)
    }
    run.items(1)
    namespace.values.set(target.field, data(value))
  }
}

function unpack(run: Run, targets: readonly Target[], value: Json, frame: Frame): void {
  const items = isList(value) ? value : typeof value === "string" ? characters(run, value) : null
  if (items === null || items.length !== targets.length) {
    const found = items === null ? "something that is not a list" : `${items.length} of them`
    throw cannot(`expected a list of ${targets.length} items to unpack, found ${found}`)
  }
  targets.forEach((target, i) => {
    assign(run, target, items[i] as Json, frame)
  })
}

function blockValue(run: Run, statement: SetBlock, frame: Frame): Value {
  const inner: Output = { text: "" }
  execute(run, statement.body, new Frame(frame), inner)
  let value: Value = inner.text
  for (const filter of statement.filters) value = applyTo(run, filter, value, frame)
  if (value instanceof Missing) throw value.fault()
  return value
}
