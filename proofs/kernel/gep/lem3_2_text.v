(* gep.lem3.2.text: Yu, Zhang, Chen, Liu, Do not let privacy overbill utility: gradient embedding perturbation for private learning (GEP), ICLR 2021: section 3.2, after Lemma 3.2.
   "From Lemma 3.2, we can see the larger the number of anchor gradients and the dimension of the anchor subspace k, the smaller the residual gradients."
   Stated as printed is the number m of anchors, at k = 1, on average over the anchors; in k the residual does not rise.
   Doubt: covariances are taken without subtracting the mean, as E|xi|^4 - sum lambda_i^2 in the lemma suggests. *)
From kernel Require Import definitions lemmas.

(* the lemma's setting: xi of a finite law p, bounded; m anchors drawn from it; the line through 0 in which they have most energy *)
Definition energy (gs : list vec) (b : vec) : R := total (map (fun g => dot g b ^ 2) gs).           (* along the unit vector b *)
Definition leading d (gs : list vec) (b : vec) : Prop := length b = d /\ norm b = 1 /\
  forall u, length u = d -> norm u = 1 -> energy gs u <= energy gs b.
Definition residual (p : law vec) (b : vec) : R := E p (fun v => square v - dot v b ^ 2).            (* E|xi - Pi(xi)|^2 *)
Fixpoint draws (p : law vec) (m : nat) : law (list vec) :=                                        (* m independent draws *)
  match m with O => [(1, [])] | S m' => flat_map (fun a => map (fun s => (fst a * fst s, snd a :: snd s)) (draws p m')) p end.
Definition mean_residual (p : law vec) (top : list vec -> vec) (m : nat) : R := E (draws p m) (fun s => residual p (top s)).
(* top is a leading line of each sample, whichever is taken where there are several *)
Definition printed : Prop := forall d p T top, (2 <= d)%nat -> lawful p -> in_space d p -> Forall (fun a => square (snd a) < T) p ->
  (forall s, s <> [] -> (forall v, In v s -> In v (map snd p)) -> leading d s (top s)) ->
  forall m m', (0 < m < m')%nat -> mean_residual p top m' <= mean_residual p top m.

(* e_1 with chance 9/10, sqrt 8 e_2 with 1/10: from m = 1 to 2 the mean residual rises from 81/100 to 819/1000 *)
Definition s8 : R := sqrt 8.
Definition two : law vec := [(9 / 10, [1; 0]); (1 / 10, [0; s8])].
Lemma s8_s8 : s8 * s8 = 8. Proof. apply sqrt_sqrt. lra. Qed.
Lemma residual_of a b : residual two [a; b] = 9 / 10 * (1 - a ^ 2) + 8 / 10 * (1 - b ^ 2).
Proof.
  assert (e : residual two [a; b] = 9 / 10 * (1 - a ^ 2) + 1 / 10 * (s8 * s8 * (1 - b ^ 2))) by (unfold residual, two, E, square, dot; simpl; ring).
  rewrite e, s8_s8. field.
Qed.
Lemma unit_square a b : norm [a; b] = 1 -> a ^ 2 + b ^ 2 = 1.
Proof. intro n. pose proof (norm_norm [a; b]) as q. rewrite n in q. unfold square, dot in q. simpl in q. simpl. lra. Qed.
(* in samples of the two vectors, energies add up over the axes; the axis of more energy leads *)
Lemma energy_two s : (forall v, In v s -> In v (map snd two)) -> forall u v, energy s [u; v] = energy s [1; 0] * u ^ 2 + energy s [0; 1] * v ^ 2.
Proof.
  intros h u v. induction s as [|g s IH]; [unfold energy; simpl; ring|].
  assert (I : energy s [u; v] = energy s [1; 0] * u ^ 2 + energy s [0; 1] * v ^ 2) by (apply IH; intros w i; apply h; right; exact i).
  destruct (h g (or_introl eq_refl)) as [<-|[<-|[]]]; unfold energy in *; cbn [map total fold_right snd] in *; unfold total in *; rewrite I; unfold dot; cbn [zip total fold_right]; ring.
Qed.
Definition axis (s : list vec) : vec := if Rle_dec (energy s [0; 1]) (energy s [1; 0]) then [1; 0] else [0; 1].
Lemma axis_leads s : (forall v, In v s -> In v (map snd two)) -> leading 2 s (axis s).
Proof.
  intro h. pose proof (energy_two s h) as e. unfold axis. destruct (Rle_dec (energy s [0; 1]) (energy s [1; 0])) as [le|gt].
  - split; [reflexivity|]. split; [norm_of|]. intros w l n. destruct w as [|u [|v [|]]]; try discriminate. pose proof (unit_square u v n) as one. rewrite e.
    assert (0 <= v ^ 2) by nra. replace (u ^ 2) with (1 - v ^ 2) by lra. nra.
  - split; [reflexivity|]. split; [norm_of|]. intros w l n. destruct w as [|u [|v [|]]]; try discriminate. pose proof (unit_square u v n) as one. rewrite e.
    assert (0 <= u ^ 2) by nra. replace (v ^ 2) with (1 - u ^ 2) by lra. nra.
Qed.
Lemma residual_first s x y : energy s [1; 0] = x -> energy s [0; 1] = y -> y < x -> residual two (axis s) = 8 / 10.
Proof. intros <- <- lt. unfold axis. destruct (Rle_dec _ _) as [_|no]; [rewrite residual_of; field | lra]. Qed.
Lemma residual_second s x y : energy s [1; 0] = x -> energy s [0; 1] = y -> x < y -> residual two (axis s) = 9 / 10.
Proof. intros <- <- lt. unfold axis. destruct (Rle_dec _ _) as [no|_]; [lra | rewrite residual_of; field]. Qed.
Ltac energies := pose proof s8_s8 as q; unfold energy, dot; cbn [map total fold_right zip]; nra.
Lemma one_anchor : mean_residual two axis 1 = 81 / 100.
Proof.
  unfold mean_residual, draws, E. cbn [two flat_map map app fst snd total fold_right].
  rewrite (residual_first [[1; 0]] 1 0) by (try lra; energies). rewrite (residual_second [[0; s8]] 0 8) by (try lra; energies). lra.
Qed.
Lemma two_anchors : mean_residual two axis 2 = 819 / 1000.
Proof.
  unfold mean_residual, draws, E. cbn [two flat_map map app fst snd total fold_right].
  rewrite (residual_first [[1; 0]; [1; 0]] 2 0) by (try lra; energies). rewrite (residual_second [[1; 0]; [0; s8]] 1 8) by (try lra; energies).
  rewrite (residual_second [[0; s8]; [1; 0]] 1 8) by (try lra; energies). rewrite (residual_second [[0; s8]; [0; s8]] 0 16) by (try lra; energies). lra.
Qed.
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. specialize (claim 2%nat two 9 axis (Nat.le_refl _) ltac:(unfold two; lawful_by) ltac:(repeat constructor)).
  assert (h : mean_residual two axis 2 <= mean_residual two axis 1).
  { apply claim; [|intros s _; apply axis_leads | lia]. pose proof s8_s8 as q. repeat constructor; unfold square, dot; simpl; lra. }
  rewrite one_anchor, two_anchors in h. lra.
Qed.
