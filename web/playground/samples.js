// Pictures to begin with, drawn here: nothing is fetched.
import { Picture } from "./pictures.js";

const font = (points, bold = "") => `${bold} ${points}px "DejaVu Sans", Verdana, "Liberation Sans", Arial, sans-serif`;

function line(pen, width, height) {
  pen.fillStyle = "#fff";
  pen.fillRect(0, 0, width, height);
  pen.fillStyle = "#101418";
  pen.font = font(25);
  pen.textBaseline = "middle";
  pen.fillText("4071", 42, 70);
}

function receipt(pen, width, height) {
  pen.fillStyle = "#fff";
  pen.fillRect(0, 0, width, height);
  pen.fillStyle = "#101418";
  pen.font = font(22);
  pen.textBaseline = "middle";
  ["No. 2218", "2026-03-14", "TOTAL 48.20"].forEach((text, row) => pen.fillText(text, 10, (height / 3.5) * (row + 0.75)));
}

function shapes(pen, width, height) {
  pen.fillStyle = "#f2f2f2";
  pen.fillRect(0, 0, width, height);
  const disc = (x, y, r, colour) => {
    pen.fillStyle = colour;
    pen.beginPath();
    pen.arc(x, y, r, 0, 7);
    pen.fill();
  };
  disc(52, 46, 22, "rgb(205 30 35)");
  disc(168, 82, 20, "rgb(30 65 200)");
  pen.fillStyle = "rgb(25 140 50)";
  pen.fillRect(92, 62, 36, 36);
}

export const samples = [
  { name: "a number", question: "What does it say?", width: 168, height: 112, draw: line },
  { name: "a receipt", question: "What is the total?", width: 224, height: 112, draw: receipt },
  { name: "some shapes", question: "How many shapes are there?", width: 224, height: 112, draw: shapes },
];

export function drawn({ draw, width, height }) {
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  draw(canvas.getContext("2d"), width, height);
  return canvas;
}

export async function pictureOf(sample) {
  const blob = await new Promise((resolve) => drawn(sample).toBlob(resolve, "image/png"));
  return Picture.read(blob, sample.name);
}
