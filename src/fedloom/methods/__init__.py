"""Federated learning methods, one file each, under the names of ``fedloom list methods``."""

from __future__ import annotations

from fedloom.methods.centralised import Centralised
from fedloom.methods.cfl import CFL
from fedloom.methods.distillation.dsfl import DSFL
from fedloom.methods.distillation.fdfaug import FDFAug
from fedloom.methods.distillation.feddf import FedDF
from fedloom.methods.distillation.fedfmrl import FedFMRL
from fedloom.methods.distillation.fedmd import FedMD
from fedloom.methods.distillation.fld import FLD
from fedloom.methods.ditto import Ditto
from fedloom.methods.fedadagrad import FedAdagrad
from fedloom.methods.fedadam import FedAdam
from fedloom.methods.fedavg import FedAvg
from fedloom.methods.fedavgexit import FedAvgExit
from fedloom.methods.fedavgm import FedAvgM
from fedloom.methods.fedbabu import FedBABU
from fedloom.methods.feddyn import FedDyn
from fedloom.methods.fedgala.fedgala import FedGala
from fedloom.methods.fedgala.fedgalap import FedGalaP
from fedloom.methods.fedharm.fedharm import FedHARM
from fedloom.methods.fedhybridavglg import FedHybridAvgLG
from fedloom.methods.fedhybridavglgdual import FedHybridAvgLGDual
from fedloom.methods.fedper import FedPer
from fedloom.methods.fedproto import FedProto
from fedloom.methods.fedprox import FedProx
from fedloom.methods.fedproxexit import FedProxExit
from fedloom.methods.fedrep import FedRep
from fedloom.methods.fedseq.fedseq import FedSeq
from fedloom.methods.fedseq.fedseqinter import FedSeqInter
from fedloom.methods.fedsgd import FedSGD
from fedloom.methods.fedu import FedU
from fedloom.methods.fedyogi import FedYogi
from fedloom.methods.fesem import FeSEM
from fedloom.methods.fjord import FjORD
from fedloom.methods.heterofl import HeteroFL
from fedloom.methods.ifca import IFCA
from fedloom.methods.incremental.fedavgexemplars import FedAvgExemplars
from fedloom.methods.incremental.fedrcil import FedRCIL
from fedloom.methods.lgfedavg import LGFedAvg
from fedloom.methods.local import Local
from fedloom.methods.moon import MOON
from fedloom.methods.perfedavg import PerFedAvg
from fedloom.methods.pfedme import PFedMe
from fedloom.methods.registry import register
from fedloom.methods.scaffold import SCAFFOLD
from fedloom.methods.selfsupervised.fedca import FedCA
from fedloom.methods.selfsupervised.fedcon import FedCon
from fedloom.methods.selfsupervised.fedlid import FedLID
from fedloom.methods.selfsupervised.fedsimclr import FedSimCLR
from fedloom.methods.selfsupervised.fedsimsiam import FedSimSiam
from fedloom.methods.selfsupervised.perfcl import PerFCL

register(
    *(Local, Centralised, FedSGD, FedAvg, FedProx, FedAvgM, FedAdagrad, FedAdam, FedYogi),
    *(SCAFFOLD, FedDyn),
    *(FedPer, LGFedAvg, FedRep, FedBABU),
    *(FedHybridAvgLG, FedHybridAvgLGDual),
    *(CFL, FeSEM, IFCA),
    *(FedSeq, FedSeqInter),
    *(PerFedAvg, PFedMe, FedU, Ditto, MOON, FedProto),
    *(HeteroFL, FjORD),
    *(FLD, FedMD, FDFAug, DSFL, FedDF, FedFMRL),
    *(FedHARM,),
    *(FedRCIL, FedAvgExemplars),
    *(FedAvgExit, FedProxExit, FedGala, FedGalaP),
    *(FedSimCLR, FedSimSiam, FedCA, FedCon, PerFCL, FedLID),
)
