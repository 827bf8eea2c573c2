(* gep.random_labels: Yu, Zhang, Chen, Liu, Do not let privacy overbill utility: gradient embedding perturbation for private learning (GEP), ICLR 2021: section 3.1.
   "For the least squares regression problem the individual gradient is aligned with the feature vector while the label only scales the length but does not change the direction",
   "To understand why random label works, a quick example is that": randomly labelled auxiliary data are sufficient for finding the anchor subspace.
   Doubt: the paper offers it as a quick example; "sufficient" is read, for k = 1 and the same features, as leaving no more of the true gradients than their own best line does. *)
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
(* with errors of comparable size they leave comparable energy: what is left of the true gradients off any line is at most c times what is left of the others *)
Definition correction : Prop := forall d c xs es es' b, Forall (fun x => length x = d) xs -> length es = length xs -> length es' = length xs ->
  Forall (fun a => fst a ^ 2 <= c * snd a ^ 2) (combine es es') -> length b = d -> norm b = 1 ->
  left_over (gradients es xs) b <= c * left_over (gradients es' xs) b.

Lemma unit_energy a b u v : norm [u; v] = 1 -> energy [[a; 0]; [0; b]] [u; v] = a ^ 2 * u ^ 2 + b ^ 2 * v ^ 2 /\ u ^ 2 + v ^ 2 = 1.
Proof.
  intro n. split; [unfold energy, dot; simpl; ring|]. pose proof (norm_norm [u; v]) as q. rewrite n in q. unfold square, dot in q. simpl in q. simpl. lra.
Qed.
(* features e_1, e_2, errors (1, 10) under true and (10, 1) under random labels: the line misses 100 of 101 *)
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. assert (n1 : norm [1; 0] = 1) by norm_of. assert (n2 : norm [0; 1] = 1) by norm_of.
  assert (g1 : gradients [1; 10] [[1; 0]; [0; 1]] = [[1; 0]; [0; 10]]) by (unfold gradients, scale; cbn [combine map fst snd]; repeat (apply f_equal2; [repeat (apply f_equal2; [lra|]); reflexivity|]); reflexivity).
  assert (g2 : gradients [10; 1] [[1; 0]; [0; 1]] = [[10; 0]; [0; 1]]) by (unfold gradients, scale; cbn [combine map fst snd]; repeat (apply f_equal2; [repeat (apply f_equal2; [lra|]); reflexivity|]); reflexivity).
  specialize (claim 2%nat [[1; 0]; [0; 1]] [1; 10] [10; 1] [0; 1] [1; 0]). rewrite g1, g2 in claim.
  assert (h : left_over [[1; 0]; [0; 10]] [1; 0] <= left_over [[1; 0]; [0; 10]] [0; 1]).
  { apply claim.
    - repeat constructor.
    - reflexivity.
    - reflexivity.
    - repeat constructor; lra.
    - repeat constructor; lra.
    - split; [reflexivity|]. split; [exact n2|]. intros w l n. destruct w as [|u [|v [|]]]; try discriminate.
      destruct (unit_energy 1 10 u v n) as [q s]. rewrite q. destruct (unit_energy 1 10 0 1 n2) as [q' _]. rewrite q'. nra.
    - split; [reflexivity|]. split; [exact n1|]. intros w l n. destruct w as [|u [|v [|]]]; try discriminate.
      destruct (unit_energy 10 1 u v n) as [q s]. rewrite q. destruct (unit_energy 10 1 1 0 n1) as [q' _]. rewrite q'. nra. }
  unfold left_over, energy, square, dot in h. simpl in h. lra.
Qed.
Theorem correction_holds : correction.
Proof.
  intros d c xs es es' b F. revert es es'. induction F as [|x xs lx F IH]; intros [|a es] [|a' es'] l l' R lb nb; try discriminate.
  - unfold left_over, energy, gradients. simpl. lra.
  - injection l as l. injection l' as l'. pose proof (Forall_inv R) as r. pose proof (Forall_inv_tail R) as R'. simpl in r. specialize (IH es es' l l' R' lb nb).
    unfold left_over, energy, gradients in *. cbn [combine map total fold_right fst snd].
    rewrite !square_scale, !dot_scale. unfold total in *.
    assert (0 <= square x - dot x b ^ 2).
    { pose proof (cauchy_schwarz_square x b) as cs. rewrite <- (norm_norm b), nb in cs. simpl. lra. }
    assert (a ^ 2 * (square x - dot x b ^ 2) <= c * a' ^ 2 * (square x - dot x b ^ 2)) by (apply Rmult_le_compat_r; assumption). nra.
Qed.
