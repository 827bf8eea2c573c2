(* gep.random_labels: Yu, Zhang, Chen, Liu, Do not let privacy overbill utility: gradient embedding perturbation for private learning (GEP), ICLR 2021: section 3.1.
   "For the least squares regression problem the individual gradient is aligned with the feature vector while the label only scales the length but does not change the direction",
   so that randomly labelled auxiliary data are sufficient for finding the anchor subspace. *)
From kernel Require Import definitions lemmas.

(* gradients e x of the features x with errors e under the true labels, e' under random ones; k = 1 *)
Definition gradients (es : vec) (xs : list vec) : list vec := map (fun a => scale (fst a) (snd a)) (combine es xs).
Definition energy (gs : list vec) (b : vec) : R := total (map (fun g => dot g b ^ 2) gs).           (* along the unit vector b *)
Definition left_over (gs : list vec) (b : vec) : R := total (map square gs) - energy gs b.          (* residual energy off its line *)
Definition leading d (gs : list vec) (b : vec) : Prop := length b = d /\ norm b = 1 /\
  forall u, length u = d -> norm u = 1 -> energy gs u <= energy gs b.
(* the line that the random labels give leaves no more of the true gradients than their own best one *)
Definition printed : Prop := forall d xs es es' b b', Forall (fun x => length x = d) xs -> length es = length xs -> length es' = length xs ->
  Forall (fun a => a <> 0) es -> Forall (fun a => a <> 0) es' ->
  leading d (gradients es xs) b -> leading d (gradients es' xs) b' ->
  left_over (gradients es xs) b' <= left_over (gradients es xs) b.
